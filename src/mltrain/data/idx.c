#include "data/idx.h"

#include "data/dataset.h"

#include <zlib.h>

static void gz_cleanup(gzFile *f)
{
	if (*f)
		gzclose(*f);
}

/* Call gzread(3) up to len bytes or the end. Sets *got to their number. */
static int read_full(
	gzFile f, const char *path, void *buf, size_t len, size_t *got, struct mlr_error *err)
{
	*got = 0;
	while (*got < len) {
		size_t want = len - *got < (1u << 30) ? len - *got : 1u << 30;
		int n = gzread(f, (char *)buf + *got, (unsigned)want);

		if (n < 0) {
			int code;
			const char *what = gzerror(f, &code);

			if (code == Z_ERRNO)
				return mlr_fail_errno(err, "read '%s'", path);
			return mlr_fail(
				err, EPROTO, "read '%s': damaged gzip data: %s", path, what);
		}
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

static int read_header(gzFile f, const char *path, int rank, struct idx *x, struct mlr_error *err)
{
	uint8_t h[4 + 4 * IDX_RANK_MAX];
	size_t got, len = 4 + 4 * (size_t)rank;

	TRY(read_full(f, path, h, 4, &got, err));
	if (got < 4 || h[0] || h[1])
		return mlr_fail(err, EPROTO, "'%s' is not an IDX file", path);
	if (h[2] != 0x08)
		return mlr_fail(err, EPROTO,
			"'%s': IDX elements of type 0x%02x; only unsigned bytes (0x08) are read",
			path, h[2]);
	if (h[3] != rank)
		return mlr_fail(err, EPROTO, "'%s' has %d dimensions where %d were expected%s",
			path, h[3], rank,
			h[3] == 1           ? " (labels in place of images?)"
				: rank == 1 ? " (images in place of labels?)"
					    : "");
	TRY(read_full(f, path, h + 4, len - 4, &got, err));
	if (got < len - 4)
		return mlr_fail(err, EPROTO, "'%s' ends within its header", path);

	x->rank = rank;
	x->count = 1;
	for (int i = 0; i < rank; i++) {
		const uint8_t *p = h + 4 + 4 * i;

		x->dim[i] =
			(uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
		if (x->dim[i] == 0)
			return mlr_fail(err, EPROTO, "'%s': dimension %d is 0", path, i + 1);
		if (__builtin_mul_overflow(x->count, x->dim[i], &x->count) ||
			x->count > IDX_BYTES_MAX)
			return mlr_fail(err, EFBIG, "'%s' says it holds more than %zu bytes", path,
				IDX_BYTES_MAX);
	}
	return 0;
}

/* Allocate as the bytes arrive, doubling: the header may lie. */
static int read_data(gzFile f, const char *path, struct idx *x, struct mlr_error *err)
{
	auto_free uint8_t *data = NULL;
	size_t size = 0, have = 0, got;
	uint8_t more;
	int code;

	while (have < x->count) {
		size_t want = size ? 2 * size : 1 << 20;
		uint8_t *p;

		if (want > x->count)
			want = x->count;
		p = realloc(data, want);
		if (!p)
			return mlr_fail(err, ENOMEM, "read '%s': %zu bytes of memory", path, want);
		data = p;
		size = want;
		TRY(read_full(f, path, data + have, size - have, &got, err));
		have += got;
		if (have < size)
			return mlr_fail(err, EPROTO,
				"'%s' is truncated: %zu bytes of data where its header says %zu",
				path, have, x->count);
	}
	TRY(read_full(f, path, &more, 1, &got, err));
	if (got)
		return mlr_fail(err, EPROTO,
			"'%s' goes on after the %zu bytes of data that its header says", path,
			x->count);
	gzerror(f, &code);
	if (code == Z_BUF_ERROR)
		return mlr_fail(
			err, EPROTO, "'%s' is truncated: its gzip trailer is missing", path);
	x->data = take_ptr(&data);
	return 0;
}

int idx_read_fd(int fd, const char *path, int rank, struct idx *ret, struct mlr_error *err)
{
	auto_close int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	auto_call(gz_cleanup) gzFile f = NULL;
	struct idx x = { 0 };

	if (own < 0)
		return mlr_fail_errno(err, "read '%s'", path);
	f = gzdopen(own, "rb");
	if (!f)
		return mlr_fail(err, ENOMEM, "read '%s': no memory for zlib", path);
	take_fd(&own); /* gzclose() closes it */
	gzbuffer(f, 1 << 18);

	TRY(read_header(f, path, rank, &x, err));
	TRY(read_data(f, path, &x, err));
	*ret = x;
	return 0;
}

int idx_read(const char *path, int rank, struct idx *ret, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "'%s' is not a regular file", path);
	return idx_read_fd(fd, path, rank, ret, err);
}

void idx_done(struct idx *x)
{
	free(x->data);
	*x = (struct idx){ 0 };
}

/* --- a data set of four files with the names of the MNIST database ------------- */

static const char *const names[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

/* Any of the four identifies the format, so that an error can name the missing one. */
static int is_there(const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *gz = xasprintf("%s.gz", names[i]);

		if (dataset_has_file(dir, names[i]) || dataset_has_file(dir, gz))
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
	int is_gz = access(plain, F_OK) < 0 && errno == ENOENT;
	int r = idx_read(is_gz ? gz : plain, rank, ret, err);

	if (r != -ENOENT)
		return r;
	mlr_fail(err, ENOENT, "'%s/%s' is missing, with and without .gz", dir, name);
	return mlr_hint(err,
		"such a data set is a directory with the four IDX files of MNIST; `mltrain fetch "
		"mnist fashion-mnist` brings two of them, Debian's package dataset-fashion-mnist "
		"one");
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
	auto_call(idx_done) struct idx images = { 0 }, labels = { 0 };

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
	d->format = "idx";
	if (part == DATASET_ALL)
		TRY(read_set(d, names[0], names[1], &d->train, err));
	return read_set(d, names[2], names[3], &d->test, err);
}

const struct format dataset_idx = { "IDX files (train-images-idx3-ubyte[.gz] and so on)", is_there,
	read_dir };
