/*
 * Reads a data set for classification: training and test images and their labels, as bytes.
 *
 * On disk it is a directory of one of these kinds, identified by the files in it:
 *
 * - IDX: four files under MNIST's names, each plain or with ".gz": train-images-idx3-ubyte,
 *   train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (idx.h)
 * - CIFAR: the binary version of CIFAR-10 (data_batch_1.bin, test_batch.bin, batches.meta.txt) or
 *   of CIFAR-100 (train.bin, test.bin, fine_label_names.txt) (cifar.h)
 * - folders: train/CLASS/IMAGE and test/CLASS/IMAGE (or val/ in place of test/), PNG or JPEG; or
 *   CLASS/IMAGE alone, a share of which is for testing (folder.c)
 */
#pragma once

#include "base/base.h"
#include "tensor/batch.h"

struct image_file {
	char *path; /* below the data set's directory, owned */
};

struct image_set {
	uint32_t count;
	uint8_t *images;  /* [count][channels][height][width], owned; NULL: files[] are decoded
			     when needed (loader.h) */
	uint16_t *labels; /* [count], owned */
	struct image_file *files; /* [count] of a folder data set, owned; NULL otherwise */
};

struct dataset {
	char *dir;          /* its directory, owned */
	const char *format; /* "idx", "cifar-10", "cifar-100", "folders" */
	uint32_t channels, height, width;
	int classes;            /* the highest label + 1, or the number of names */
	char **names;           /* [classes], owned; NULL if the format has no names */
	struct image_norm norm; /* the default normalisation of its bytes */
	struct image_set train, test;
};

/* Which images to read: evaluation needs no training images. */
enum dataset_part { DATASET_ALL, DATASET_TEST };

/* How to read folders; other formats need no wishes. */
struct dataset_wish {
	uint32_t channels, height, width; /* 0: the first image's; channels 1 or 3 */
	size_t memory_max; /* bytes of images to keep in memory; others are decoded when needed. 0:
			      2 GiB */
	double test_share; /* for folders without a test part, below 1; 0: 0.2 */
	uint64_t seed;     /* shuffles the training images, so that the first ones, which are for
			      validation, have all classes */
	int threads;       /* decoding threads; 0: one */
};

/*
 * Find and read a data set. With DATASET_TEST the training set stays empty.
 *
 *   wish   may be NULL
 *
 * Returns 0, or -ENOENT, -EPROTO if files are damaged or do not belong together (counts or image
 * sizes differ), -ENOMEM. Errors name the file. Release ret with dataset_done().
 */
int dataset_load(const char *name, enum dataset_part part, const struct dataset_wish *wish,
	struct dataset *ret, struct mlr_error *err);

void dataset_done(struct dataset *d);
void dataset_set_done(struct image_set *set);

/* files may be NULL. */
void dataset_files_free(struct image_file *files, uint32_t count);

/*
 * Are there training images of every class?
 *
 *   notice  what the user should know, to free(), or NULL: classes without images, or only one
 * class
 *
 * Returns 0, or -EPROTO if there are more than ten times as many classes as have images: a damaged
 * label makes a network of 256 classes.
 */
int dataset_check_classes(const struct dataset *d, char **notice, struct mlr_error *err);

/*
 * Measure mean and standard deviation of each channel over the training images from `first` on
 * (those before are for validation). A constant channel gets the scale 1.
 *
 *   threads   decoding threads, if the images are not in memory
 *
 * Returns 0, -EINVAL if there are no such images, or an error of loader_take().
 */
int dataset_measure(const struct dataset *d, uint32_t first, int threads, struct image_norm *ret,
	struct mlr_error *err);

/* Return the name of a class; if it has none, its number, written to buf. */
const char *dataset_class(const struct dataset *d, int label, char buf[12]);

/* --- the formats on disk, for dataset.c: each recognises its directories and reads them --- */

struct format {
	const char *looks_for; /* "IDX (train-images-idx3-ubyte …)", for errors */

	/* Does dir have the file that identifies the format? */
	int (*is_there)(const char *dir);

	/*
	 * Read d->dir, for which is_there() returned true. Fills in everything but dir and norm;
	 * after a failure dataset_done() releases it.
	 */
	int (*read)(struct dataset *d, enum dataset_part part, const struct dataset_wish *wish,
		struct mlr_error *err);
};

extern const struct format dataset_idx, dataset_cifar, dataset_folders;

/* Is dir/name a regular file or a link to one? */
int dataset_has_file(const char *dir, const char *name);
