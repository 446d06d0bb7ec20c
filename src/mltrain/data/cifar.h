/*
 * Reads CIFAR-10 and CIFAR-100 in their binary version
 * (https://www.cs.toronto.edu/~kriz/cifar.html): a sequence of records, each a label and an image,
 * and nothing else.
 *
 *   CIFAR-10    label (0..9), 3072 bytes
 *   CIFAR-100   coarse label (0..19), fine label (0..99), 3072 bytes; the fine label is used
 *
 * An image is 32 rows of 32 in red, then in green, then in blue.
 */
#pragma once

#include "data/dataset.h"

#define CIFAR_SIDE      32
#define CIFAR_BYTES     ((size_t)3 * CIFAR_SIDE * CIFAR_SIDE)
#define CIFAR_FILE_MAX  ((size_t)4 << 30) /* bytes: what is larger is refused */
#define CIFAR_NAMES_MAX ((size_t)64 << 10)

enum cifar_kind { CIFAR_10, CIFAR_100 };

/*
 * Read a file's records and append them to set.
 *
 *   fd     a regular file, read from its offset on; path is for errors
 *   set    of images in memory, or zeros
 *
 * Returns 0, or -EPROTO for a file that is empty, ends within a record or has an invalid label
 * (naming the image), -EFBIG above CIFAR_FILE_MAX, -EINVAL if it is not a regular file, -ENOMEM,
 * -EIO. A failure leaves set unchanged.
 */
int cifar_read_fd(int fd, const char *path, enum cifar_kind kind, struct image_set *set,
	struct mlr_error *err);
