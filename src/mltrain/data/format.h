/*
 * The formats of data sets on disk, for dataset.c: each recognises its directories and reads them.
 */
#ifndef MLT_DATA_FORMAT_H
#define MLT_DATA_FORMAT_H

#include "data/dataset.h"

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

extern const struct format format_idx, format_cifar, format_folders;

/* Is dir/name a regular file or a link to one? */
int format_has_file(const char *dir, const char *name);

#endif
