#include "train/resume.h"

#include "base/base.h"

#define PIECE ((size_t)64 << 20) /* bytes of one broadcast */

/* What rank 0 tells the others about the file. */
struct found {
	int64_t size; /* or a negative errno */
	struct mlr_error err;
};

static int share(struct dist *d, struct found *found, char **buf, struct mlr_error *err)
{
	const struct exchange *x = &d->exchange;
	int r = x->broadcast(x->ctx, found, sizeof(*found), err);
	size_t size, piece;

	if (r < 0 || found->size < 0)
		return r;
	size = (size_t)found->size;
	if (d->rank != 0) {
		*buf = malloc(size ? size : 1);
		if (!*buf)
			return mlr_fail(err, ENOMEM, "%zu bytes of memory", size);
	}
	for (size_t at = 0; at < size && r == 0; at += piece) {
		piece = size - at < PIECE ? size - at : PIECE;
		r = x->broadcast(x->ctx, *buf + at, piece, err);
	}
	return r;
}

int resume_read(const char *path, struct dist *d, struct checkpoint *ret, struct mlr_error *err)
{
	struct found found = { 0, MLR_ERROR_INIT };
	auto_free char *buf = NULL;
	size_t len = 0;
	int r = 0;

	if (d->rank == 0 || d->ranks == 1) {
		r = file_read(AT_FDCWD, path, CHECKPOINT_MAX, &buf, &len, &found.err);
		found.size = r < 0 ? r : (int64_t)len;
	}
	if (d->ranks > 1)
		r = share(d, &found, &buf, err);
	if (found.size == -ENOENT)
		return 0;
	if (found.size < 0) {
		if (err)
			*err = found.err;
		return mlr_wrap(err, "checkpoint");
	}
	if (r < 0)
		return r;
	r = checkpoint_parse(buf, (size_t)found.size, ret, err);
	return r < 0 ? mlr_wrap(err, "checkpoint '%s'", path) : 1;
}
