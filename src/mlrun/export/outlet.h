/*
 * Where an exported image goes: files by name, into a directory or a tar archive. For this room's
 * other files.
 *
 * What is at a path appears whole or not at all: it is made beside it and renamed. A path that is
 * there and is neither file nor directory (a fifo, /dev/stdout) and "-", standard output, are
 * written to as they are.
 */
#ifndef MLR_EXPORT_OUTLET_H
#define MLR_EXPORT_OUTLET_H

#include "base/error.h"

#include <archive.h>
#include <stddef.h>
#include <stdint.h>

struct outlet;

enum outlet_kind {
	OUTLET_TAR, /* an archive in which a file at that path is replaced */
	OUTLET_DIR, /* a directory, which must not be there yet, or be empty */
};

/* Returns 0, or -EEXIST and the like. */
int outlet_open(
	const char *path, enum outlet_kind kind, struct outlet **ret, struct mlr_error *err);

/* A file with these bytes: len of buf, or size of fd from its beginning. Names have their
 * directories made. */
int outlet_put(
	struct outlet *o, const char *name, const void *buf, size_t len, struct mlr_error *err);
int outlet_put_fd(struct outlet *o, const char *name, int fd, uint64_t size, struct mlr_error *err);

/* The archive itself, for members of another kind (OUTLET_TAR). */
struct archive *outlet_archive(struct outlet *o);
/* After each call on it, with what that returned: 0, or the failure as a sentence. */
int outlet_check(struct outlet *o, int r, struct mlr_error *err);

/* All is there: write it out and rename. */
int outlet_finish(struct outlet *o, struct mlr_error *err);
/* Removes what was not finished. NULL is fine. */
void outlet_free(struct outlet *o);

static inline void outlet_cleanup(struct outlet **o)
{
	outlet_free(*o);
}

#endif
