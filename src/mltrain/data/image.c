#include "data/image.h"

#include "config.h"
#include "data/pixels.h"

#include <assert.h>

static const struct kind {
	const char *name, *option, *package;
	uint8_t magic[8];
	size_t magic_len;
	int (*read)(const void *bytes, size_t len, const struct image_size *want,
		struct pixels *ret, struct mlr_error *err); /* NULL: built without the library */
} kinds[] = {
	{ "PNG", "png", "libpng-dev", { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, 8,
#if HAVE_PNG
		pixels_read_png
#else
		NULL
#endif
	},
	{ "JPEG", "jpeg", "libjpeg-dev", { 0xff, 0xd8, 0xff }, 3,
#if HAVE_JPEG
		pixels_read_jpeg
#else
		NULL
#endif
	},
};

static int decode(const void *bytes, size_t len, const struct image_size *want, struct pixels *ret,
	struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct kind *k = &kinds[i];

		if (len < k->magic_len || memcmp(bytes, k->magic, k->magic_len) != 0)
			continue;
		if (k->read)
			return k->read(bytes, len, want, ret, err);
		mlr_fail(err, ENOTSUP, "this mltrain was built without lib%s", k->option);
		return mlr_hint(err, "install %s (Debian's name) and build it with --with-%s",
			k->package, k->option);
	}
	return mlr_fail(err, EPROTO, "%s", len ? "neither PNG nor JPEG" : "the file is empty");
}

int image_probe_bytes(const void *bytes, size_t len, struct image_size *ret, struct mlr_error *err)
{
	auto_call(pixels_done) struct pixels p = PIXELS_INIT;

	TRY(decode(bytes, len, NULL, &p, err));
	*ret = p.size;
	if (pixels_lie_across(p.orientation)) {
		ret->height = p.size.width;
		ret->width = p.size.height;
	}
	return 0;
}

int image_read_bytes(const void *bytes, size_t len, const struct image_size *want, uint8_t *ret,
	struct mlr_error *err)
{
	auto_call(pixels_done) struct pixels whole = PIXELS_INIT, fit = PIXELS_INIT;
	int across;

	assert(want->height && want->height <= IMAGE_SIDE_MAX);
	assert(want->width && want->width <= IMAGE_SIDE_MAX);
	TRY(decode(bytes, len, want, &whole, err));
	across = pixels_lie_across(whole.orientation);
	TRY(pixels_fit(&whole, across ? want->width : want->height,
		across ? want->height : want->width, &fit, err));
	pixels_to_planes(&fit, want, ret);
	return 0;
}

/* O_NONBLOCK: a pipe or device that has replaced the file must not block. */
static int slurp(const char *path, uint8_t **ret, size_t *len, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free uint8_t *bytes = NULL;
	struct stat st;
	ssize_t got;

	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "open it");
	if (!S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "not a regular file");
	if (st.st_size > (off_t)IMAGE_FILE_MAX)
		return mlr_fail(err, EFBIG, "more than %zu bytes", IMAGE_FILE_MAX);
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", (size_t)st.st_size);
	got = file_read_full(fd, bytes, (size_t)st.st_size);
	if (got < 0)
		return mlr_result(err, (int)got, "read it");
	*ret = take_ptr(&bytes);
	*len = (size_t)got;
	return 0;
}

int image_probe(const char *path, struct image_size *ret, struct mlr_error *err)
{
	auto_free uint8_t *bytes = NULL;
	size_t len = 0;

	if (slurp(path, &bytes, &len, err) < 0 || image_probe_bytes(bytes, len, ret, err) < 0)
		return mlr_wrap(err, "image '%s'", path);
	return 0;
}

int image_read(const char *path, const struct image_size *want, uint8_t *ret, struct mlr_error *err)
{
	auto_free uint8_t *bytes = NULL;
	size_t len = 0;

	if (slurp(path, &bytes, &len, err) < 0 || image_read_bytes(bytes, len, want, ret, err) < 0)
		return mlr_wrap(err, "image '%s'", path);
	return 0;
}

const char *image_formats(void)
{
#if HAVE_PNG && HAVE_JPEG
	return "+png +jpeg";
#elif HAVE_PNG
	return "+png -jpeg";
#elif HAVE_JPEG
	return "-png +jpeg";
#else
	return "-png -jpeg";
#endif
}
