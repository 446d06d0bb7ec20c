#include "load/request.h"

#include "data/picture.h"

void pictures_done(struct pictures *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].file);
	free(p->v);
	*p = (struct pictures){ 0 };
}

static const char *type_of(const char *name)
{
	static const struct {
		const char *suffix, *type;
	} known[] = { { ".png", "image/png" }, { ".jpg", "image/jpeg" },
		{ ".jpeg", "image/jpeg" } };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < ARRAY_LEN(known); i++)
		if (strcasecmp(dot, known[i].suffix) == 0)
			return known[i].type;
	return NULL;
}

static int add(struct pictures *p, uint8_t *file, size_t len, const char *type)
{
	*xadd(p->v, p->n) = (struct picture){ file, len, type };
	p->bytes += len;
	return p->n < p->max && p->bytes < PICTURES_BYTES_MAX;
}

/* Add a file. Returns whether another may follow, or a negative errno. */
static int add_file(
	struct pictures *p, int dir, const char *name, const char *type, struct mlr_error *err)
{
	char *file;
	size_t len;

	TRY(file_read(dir, name, IMAGE_FILE_MAX, &file, &len, err));
	return add(p, (uint8_t *)file, len, type);
}

/* Read the pictures in the directory itself. */
static int read_folder(const char *where, struct pictures *p, struct mlr_error *err)
{
	auto_close int dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_strv struct strv names = STRV_INIT;
	int r = 1;

	if (dir < 0 || file_list(dir, ".", 0, &names) < 0)
		return 0; /* perhaps the name of a data set */
	for (size_t i = 0; i < names.n && r > 0; i++)
		if (names.v[i][0] != '.' && type_of(names.v[i]))
			r = add_file(p, dir, names.v[i], type_of(names.v[i]), err);
	return r < 0 ? mlr_wrap(err, "pictures '%s'", where) : 0;
}

static int add_test_files(const struct dataset *d, struct pictures *p, struct mlr_error *err)
{
	auto_close int dir = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 1;

	if (dir < 0)
		return mlr_fail_errno(err, "open '%s'", d->dir);
	for (uint32_t i = 0; i < d->test.count && r > 0; i++)
		r = add_file(p, dir, d->test.files[i].path, type_of(d->test.files[i].path), err);
	return r < 0 ? r : 0;
}

static int add_test_images(const struct dataset *d, struct pictures *p, struct mlr_error *err)
{
	const struct image_size size = { d->channels, d->height, d->width };
	size_t bytes = (size_t)d->channels * d->height * d->width, len;
	uint8_t *file;

	for (uint32_t i = 0; i < d->test.count; i++) {
		if (picture_encode(&size, d->test.images + i * bytes, &file, &len) < 0)
			return mlr_fail(err, ENOTSUP,
				"no PNG can be made of its images: this mltrain has no libpng");
		if (!add(p, file, len, "image/png"))
			break;
	}
	return 0;
}

static int read_dataset(const char *where, struct pictures *p, struct mlr_error *err)
{
	/* Folders are sent as they are, so nothing is to be decoded. */
	const struct dataset_wish wish = { .memory_max = 1 };
	auto_call(dataset_done) struct dataset d = { 0 };
	int r;

	TRY(dataset_load(where, DATASET_TEST, &wish, &d, err));
	r = d.test.images ? add_test_images(&d, p, err) : add_test_files(&d, p, err);
	return r < 0 ? mlr_wrap(err, "data set '%s'", where) : r;
}

int pictures_read(const char *where, size_t max, struct pictures *ret, struct mlr_error *err)
{
	auto_call(pictures_done) struct pictures p = { .max = max };

	TRY(read_folder(where, &p, err));
	if (!p.n)
		TRY(read_dataset(where, &p, err));
	if (!p.n)
		return mlr_fail(err, ENOENT, "no pictures in '%s'", where);
	*ret = take_struct(&p, { 0 });
	return 0;
}

int picture_decode(
	const struct picture *p, struct image_size *size, uint8_t **ret, struct mlr_error *err)
{
	auto_free uint8_t *bytes = NULL;

	TRY(image_probe_bytes(p->file, p->len, size, err));
	bytes = malloc((size_t)size->channels * size->height * size->width);
	if (!bytes)
		return mlr_fail(err, ENOMEM, "no memory for a picture of %u x %u", size->width,
			size->height);
	TRY(image_read_bytes(p->file, p->len, size, bytes, err));
	*ret = take_ptr(&bytes);
	return 0;
}

int picture_vary(
	const struct picture *p, uint32_t number, struct picture *ret, struct mlr_error *err)
{
	auto_free uint8_t *bytes = NULL;
	struct image_size size;
	size_t n;

	TRY(picture_decode(p, &size, &bytes, err));
	n = (size_t)size.channels * size.height * size.width;
	for (unsigned i = 0; i < 32; i++)
		bytes[i * n / 32] ^= number >> i & 1;
	ret->type = "image/png";
	if (picture_encode(&size, bytes, &ret->file, &ret->len) < 0)
		return mlr_fail(err, ENOTSUP, "this mltrain has no libpng to write pictures with");
	return 0;
}
