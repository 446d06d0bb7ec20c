/*
 * A data set for classification: training and test images with their labels, as bytes in memory.
 *
 * On disk it is a directory of four IDX files under MNIST's names, each plain or with ".gz":
 *
 *   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte t10k-labels-idx1-ubyte
 */
#ifndef MLT_DATA_DATASET_H
#define MLT_DATA_DATASET_H

#include "base/error.h"

#include <stdint.h>

struct image_set {
	uint32_t count;
	uint8_t *images; /* [count][height][width], owned */
	uint8_t *labels; /* [count], owned */
};

struct dataset {
	char *dir; /* where it was found, owned */
	uint32_t height, width;
	int classes; /* the highest label + 1 */
	struct image_set train, test;
};

#define DATASET_INIT { NULL }

/*
 * Find the directory that --data means: a directory's path as it is; a bare name that is none
 * ("mnist", "fashion-mnist", …) is looked for in Debian's place /usr/share/datasets/NAME, then in
 * ./NAME, ./data/NAME, $XDG_DATA_HOME/datasets/NAME and /usr/local/share/datasets/NAME. The two
 * names above always go that way, so that a stray file of that name is no surprise.
 *
 * Returns 0 and a string to free(), or -ENOENT with the places and the package to install.
 */
int dataset_find(const char *name, char **ret, struct mlr_error *err);

/* Which files to read: evaluation needs no training images. */
enum dataset_part { DATASET_ALL, DATASET_TEST };

/*
 * Find and read a data set. With DATASET_TEST the training set is left empty.
 *
 * Returns 0, or -ENOENT, -EPROTO when files are damaged or do not belong together (counts or image
 * sizes differ), -ENOMEM. The errors name the file. ret is to be dataset_done() afterwards.
 */
int dataset_load(
	const char *name, enum dataset_part part, struct dataset *ret, struct mlr_error *err);

void dataset_done(struct dataset *d);

#endif
