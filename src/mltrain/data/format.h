/*
 * The forms that a data set takes on disk, for dataset.c: each says whether a directory is one of
 * its own, and reads it.
 */
#ifndef MLT_DATA_FORMAT_H
#define MLT_DATA_FORMAT_H

#include "data/dataset.h"

struct format {
	const char *looks_for; /* "IDX (train-images-idx3-ubyte …)", for errors */

	/* Is there a file by which it is known in dir? */
	int (*is_there)(const char *dir);

	/*
	 * Read d->dir, which is_there() said yes of. Fills in everything but dir and norm; on
	 * failure, what was filled in is left to dataset_done().
	 */
	int (*read)(struct dataset *d, enum dataset_part part, const struct dataset_wish *wish,
		struct mlr_error *err);
};

extern const struct format format_idx, format_cifar_10, format_cifar_100, format_folders;

/* Is dir/name there, and a regular file (or a link to one)? */
int format_has_file(const char *dir, const char *name);

#endif
