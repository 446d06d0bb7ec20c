/*
 * A data set for classification: training and test images with their labels, as bytes.
 *
 * On disk it is a directory of one of these kinds, which the files in it tell apart:
 *
 * - IDX: four files under MNIST's names, each plain or with ".gz": train-images-idx3-ubyte,
 *   train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (idx.h)
 * - CIFAR: the binary version of CIFAR-10 (data_batch_1.bin, test_batch.bin, batches.meta.txt) or
 *   of CIFAR-100 (train.bin, test.bin, fine_label_names.txt) (cifar.h)
 * - folders: train/CLASS/IMAGE and test/CLASS/IMAGE (or val/ in place of test/), PNG or JPEG; or
 *   CLASS/IMAGE alone, of which a part is taken for testing (folder.h)
 */
#ifndef MLT_DATA_DATASET_H
#define MLT_DATA_DATASET_H

#include "base/error.h"
#include "tensor/batch.h"

#include <stddef.h>
#include <stdint.h>

struct image_file;

struct image_set {
	uint32_t count;
	uint8_t *images;  /* [count][channels][height][width], owned; NULL: files[] are decoded
			     as they are needed (loader.h) */
	uint16_t *labels; /* [count], owned */
	struct image_file *files; /* [count] of a folder data set, owned; NULL otherwise */
};

struct dataset {
	char *dir;          /* where it was found, owned */
	const char *format; /* "idx", "cifar-10", "cifar-100", "folders" */
	uint32_t channels, height, width;
	int classes;            /* the highest label + 1, or the number of names */
	char **names;           /* [classes], owned; NULL where the format has none */
	struct image_norm norm; /* how its bytes enter a network unless one says otherwise */
	struct image_set train, test;
};

#define DATASET_INIT \
	{            \
		NULL \
	}

/* Which files to read: evaluation needs no training images. */
enum dataset_part { DATASET_ALL, DATASET_TEST };

/* How folders are read; the other formats say it all themselves. Zeros: as told. */
struct dataset_wish {
	uint32_t channels, height, width; /* 0: the first image's; channels 1 or 3 */
	size_t memory_max; /* bytes of images in memory; more are decoded when needed. 0: 2 GiB */
	double test_share; /* of folders without a test part, below 1; 0: 0.2 */
	uint64_t seed;     /* the order of folders' training images, so that the first ones, which
			      are kept for validation, are of all classes */
	int threads;       /* that decode; 0: one */
};

/*
 * Find and read a data set. With DATASET_TEST the training set is left empty.
 *
 *   wish   may be NULL
 *
 * Returns 0, or -ENOENT, -EPROTO when files are damaged or do not belong together (counts or image
 * sizes differ), -ENOMEM. The errors name the file. ret is to be dataset_done() afterwards.
 */
int dataset_load(const char *name, enum dataset_part part, const struct dataset_wish *wish,
	struct dataset *ret, struct mlr_error *err);

void dataset_done(struct dataset *d);

/*
 * How the training images' bytes are distributed: mean and standard deviation of each channel, of
 * the images from `first` on (those before are kept for validation). A channel that is the same
 * everywhere has the scale 1.
 *
 *   threads   that decode where the images are not in memory
 *
 * Returns 0, -EINVAL when there are no such images, or what loader_take() gives.
 */
int dataset_measure(const struct dataset *d, uint32_t first, int threads, struct image_norm *ret,
	struct mlr_error *err);

/* The name of a class: its own, or its number. buf is used where there is none. */
const char *dataset_class(const struct dataset *d, int label, char buf[12]);

#endif
