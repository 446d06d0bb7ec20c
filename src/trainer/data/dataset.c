#include "trainer/data/dataset.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/data/idx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_known(const char *name)
{
	return strcmp(name, "mnist") == 0 || strcmp(name, "fashion-mnist") == 0;
}

/* The places where a name is looked for, in order; n beyond the last gives NULL. */
static char *place(const char *name, int n)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	switch (n) {
	case 0:
		return xasprintf("/usr/share/datasets/%s", name);
	case 1:
		return xstrdup(name);
	case 2:
		return xasprintf("data/%s", name);
	case 3:
		if (xdg && *xdg)
			return xasprintf("%s/datasets/%s", xdg, name);
		return xasprintf("%s/.local/share/datasets/%s", home ? home : "", name);
	case 4:
		return xasprintf("/usr/local/share/datasets/%s", name);
	default:
		return NULL;
	}
}

static int not_found(const char *name, struct mlr_error *err)
{
	mlr_fail(err, ENOENT,
		"data set '%s' was not found in /usr/share/datasets/%s, ./%s, ./data/%s, "
		"$XDG_DATA_HOME/datasets/%s or /usr/local/share/datasets/%s",
		name, name, name, name, name, name);
	if (strcmp(name, "fashion-mnist") == 0)
		return mlr_hint(err,
			"apt-get install dataset-fashion-mnist, or give --data the directory "
			"that holds its four IDX files");
	return mlr_hint(err,
		"give --data the directory that holds its four IDX files (train-images-idx3-ubyte[.gz] "
		"and so on); Debian's package dataset-fashion-mnist brings --data fashion-mnist");
}

int dataset_find(const char *name, char **ret, struct mlr_error *err)
{
	int bare = !strchr(name, '/');

	if (!bare || (!is_known(name) && is_dir(name))) {
		if (is_dir(name)) {
			*ret = xstrdup(name);
			return 0;
		}
		mlr_fail(err, ENOENT, "data directory '%s' is not there", name);
		return mlr_hint(
			err, "Debian's package dataset-fashion-mnist brings --data fashion-mnist");
	}
	for (int n = 0;; n++) {
		auto_free char *p = place(name, n);

		if (!p)
			return not_found(name, err);
		if (is_dir(p)) {
			*ret = take_ptr(&p);
			return 0;
		}
	}
}

/* Read DIR/NAME or DIR/NAME.gz. */
static int read_file(
	const char *dir, const char *name, int rank, struct idx *ret, struct mlr_error *err)
{
	auto_free char *plain = xasprintf("%s/%s", dir, name);
	auto_free char *gz = xasprintf("%s/%s.gz", dir, name);
	int r;

	r = idx_read(plain, rank, ret, NULL);
	if (r != -ENOENT)
		return r < 0 ? idx_read(plain, rank, ret, err) : 0;
	r = idx_read(gz, rank, ret, err);
	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "'%s/%s' is missing, with and without .gz", dir, name);
		mlr_hint(err,
			"a data set is a directory with the four IDX files of MNIST; Debian's package "
			"dataset-fashion-mnist brings --data fashion-mnist");
	}
	return r;
}

static int read_set(
	struct dataset *d, const char *prefix, struct image_set *set, struct mlr_error *err)
{
	auto_free char *image_name = xasprintf("%s-images-idx3-ubyte", prefix);
	auto_free char *label_name = xasprintf("%s-labels-idx1-ubyte", prefix);
	auto_call(idx_done) struct idx images = IDX_INIT, labels = IDX_INIT;
	int r;

	r = read_file(d->dir, image_name, 3, &images, err);
	if (r < 0)
		return r;
	r = read_file(d->dir, label_name, 1, &labels, err);
	if (r < 0)
		return r;
	if (images.dim[0] != labels.dim[0])
		return mlr_fail(err, EPROTO, "'%s/%s' has %u images but '%s' has %u labels", d->dir,
			image_name, images.dim[0], label_name, labels.dim[0]);
	if (d->height && (images.dim[1] != d->height || images.dim[2] != d->width))
		return mlr_fail(err, EPROTO,
			"'%s/%s' has images of %ux%u but the training images are %ux%u", d->dir,
			image_name, images.dim[1], images.dim[2], d->height, d->width);

	d->height = images.dim[1];
	d->width = images.dim[2];
	for (uint32_t i = 0; i < labels.dim[0]; i++)
		if (labels.data[i] >= d->classes)
			d->classes = labels.data[i] + 1;
	set->count = images.dim[0];
	set->images = take_ptr(&images.data);
	set->labels = take_ptr(&labels.data);
	return 0;
}

int dataset_load(
	const char *name, enum dataset_part part, struct dataset *ret, struct mlr_error *err)
{
	auto_call(dataset_done) struct dataset d = DATASET_INIT;
	int r;

	r = dataset_find(name, &d.dir, err);
	if (r < 0)
		return r;
	if (part == DATASET_ALL) {
		r = read_set(&d, "train", &d.train, err);
		if (r < 0)
			return r;
	}
	r = read_set(&d, "t10k", &d.test, err);
	if (r < 0)
		return r;

	*ret = d;
	d = (struct dataset)DATASET_INIT;
	return 0;
}

void dataset_done(struct dataset *d)
{
	free(d->dir);
	free(d->train.images);
	free(d->train.labels);
	free(d->test.images);
	free(d->test.labels);
	*d = (struct dataset)DATASET_INIT;
}
