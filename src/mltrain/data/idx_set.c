/* Reads a data set of four IDX files with the names of the MNIST database. */
#include "data/format.h"

#include "base/base.h"
#include "data/idx.h"

static const char *const names[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

/* One of the four identifies the format: an error then names the missing one. */
static int is_there(const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *gz = xasprintf("%s.gz", names[i]);

		if (format_has_file(dir, names[i]) || format_has_file(dir, gz))
			return 1;
	}
	return 0;
}

/* Read DIR/NAME or DIR/NAME.gz. */
static int read_file(
	const char *dir, const char *name, int rank, struct idx *ret, struct mlr_error *err)
{
	auto_free char *plain = xasprintf("%s/%s", dir, name);
	auto_free char *gz = xasprintf("%s/%s.gz", dir, name);
	struct mlr_error why = MLR_ERROR_INIT;
	int r;

	r = idx_read(plain, rank, ret, &why);
	if (r != -ENOENT) {
		if (r < 0 && err)
			*err = why;
		return r;
	}
	r = idx_read(gz, rank, ret, err);
	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "'%s/%s' is missing, with and without .gz", dir, name);
		mlr_hint(err,
			"such a data set is a directory with the four IDX files of MNIST; `mltrain "
			"fetch mnist fashion-mnist` brings two of them, Debian's package "
			"dataset-fashion-mnist one");
	}
	return r;
}

static int widen(const uint8_t *labels, size_t n, uint16_t **ret, struct mlr_error *err)
{
	uint16_t *wide = calloc(n, sizeof(*wide));

	if (!wide)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for labels", n * sizeof(*wide));
	for (size_t i = 0; i < n; i++)
		wide[i] = labels[i];
	*ret = wide;
	return 0;
}

static int read_set(struct dataset *d, const char *image_name, const char *label_name,
	struct image_set *set, struct mlr_error *err)
{
	auto_call(idx_done) struct idx images = IDX_INIT, labels = IDX_INIT;

	TRY(read_file(d->dir, image_name, 3, &images, err));
	TRY(read_file(d->dir, label_name, 1, &labels, err));
	if (images.dim[0] != labels.dim[0])
		return mlr_fail(err, EPROTO, "'%s/%s' has %u images but '%s' has %u labels", d->dir,
			image_name, images.dim[0], label_name, labels.dim[0]);
	if (d->height && (images.dim[1] != d->height || images.dim[2] != d->width))
		return mlr_fail(err, EPROTO,
			"'%s/%s' has images of %ux%u but the training images are %ux%u", d->dir,
			image_name, images.dim[1], images.dim[2], d->height, d->width);

	d->channels = 1;
	d->height = images.dim[1];
	d->width = images.dim[2];
	for (uint32_t i = 0; i < labels.dim[0]; i++)
		if (labels.data[i] >= d->classes)
			d->classes = labels.data[i] + 1;
	TRY(widen(labels.data, labels.count, &set->labels, err));
	set->count = images.dim[0];
	set->images = take_ptr(&images.data);
	return 0;
}

static int read_dir(struct dataset *d, enum dataset_part part, const struct dataset_wish *wish,
	struct mlr_error *err)
{

	(void)wish;
	d->format = "idx";
	if (part == DATASET_ALL)
		TRY(read_set(d, names[0], names[1], &d->train, err));
	return read_set(d, names[2], names[3], &d->test, err);
}

const struct format format_idx = { "IDX files (train-images-idx3-ubyte[.gz] and so on)", is_there,
	read_dir };
