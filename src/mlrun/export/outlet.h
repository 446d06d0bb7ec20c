/*
 * An exported image's destination: named files in a directory or a tar archive. For this room's
 * other files.
 *
 * A path appears whole or not at all: it is made beside it and renamed; what a killed export left
 * there is removed by the next one. An existing path that is
 * neither file nor directory (a fifo, /dev/stdout) and "-", standard output, are written to
 * directly.
 */
#pragma once

#include "base/base.h"

#include <archive.h>

struct outlet;

enum outlet_kind {
	OUTLET_TAR,  /* an archive; replaces a file at the path */
	OUTLET_DIR,  /* a directory, which must be new or empty */
	OUTLET_TREE, /* a directory, into which the members of outlet_archive() are moved at the
		      * end; until it is freed, a part of it is the caller's working directory */
	OUTLET_FILE, /* a regular file of the caller's own bytes, outlet_fd(); replaces one */
};

/* keep_modes: of an OUTLET_TREE, as layer_extract_new() has it. Returns 0, or -EEXIST and the like.
 */
int outlet_open(const char *path, enum outlet_kind kind, int keep_modes, struct outlet **ret,
	struct mlr_error *err);

/* OUTLET_FILE: open for reading and writing, at its beginning; stays the outlet's. */
int outlet_fd(const struct outlet *o);

/* Write a file: len bytes of buf, or size bytes of fd from its beginning. Makes the directories in
 * its name. */
int outlet_put(
	struct outlet *o, const char *name, const void *buf, size_t len, struct mlr_error *err);
int outlet_put_fd(struct outlet *o, const char *name, int fd, uint64_t size, struct mlr_error *err);

/* The archive itself, for other kinds of members (OUTLET_TAR, OUTLET_TREE). */
struct archive *outlet_archive(struct outlet *o);
/* Check the result of a call on the archive: returns 0, or the failure with its message. */
int outlet_check(struct outlet *o, int r, struct mlr_error *err);

/* Finish: write everything out and rename. */
int outlet_finish(struct outlet *o, struct mlr_error *err);
/* Removes an unfinished output. NULL is fine. */
void outlet_free(struct outlet *o);

static inline void outlet_cleanup(struct outlet **o)
{
	outlet_free(*o);
}
