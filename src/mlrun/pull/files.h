/*
 * Finds a bundle's files by name, below a directory or in a tar archive, compressed or not. Names
 * are paths like "blobs/sha256/ab…". For this room's other files.
 *
 * A bundle may be hostile: nothing outside the directory is opened, whatever its symlinks say, and
 * an archive's links lead only to its own members. Finding and reading are thread-safe.
 */
#pragma once

#include "pull/plain.h"

/* Limits for an archive: members, and bytes of their names. An image has some hundred. */
#define FILES_MEMBERS_MAX 65536
#define FILES_NAMES_MAX   (8u << 20)

struct files;

/* A file's bytes: size bytes of fd from offset on. */
struct files_part {
	int fd;
	uint64_t offset, size;
};

#define FILES_PART_INIT  \
	{                \
		-1, 0, 0 \
	}

void files_part_done(struct files_part *p);

/* Open a bundle from an open file or directory; fd stays the caller's. Returns 0; -EPROTO if it is
 * not an archive; -EFBIG beyond a limit, also of members; plain_open()'s errors. */
int files_open_fd(
	int fd, const struct plain_options *opt, struct files **ret, struct mlr_error *err);
void files_free(struct files *f);

/* Does a plain tar end with its end mark? A tar cut between two members lacks it. Returns 0,
 * -EPROTO with a hint, or as above. */
int files_check_end(int fd, const struct plain_options *opt, struct mlr_error *err);

/* Find a file. Returns 0, -ENOENT, or -EPROTO if it is not a regular file. */
int files_find(struct files *f, const char *name, struct files_part *ret, struct mlr_error *err);

/* Read a whole file of at most max bytes and add a NUL, to free(). Returns as above, and -EFBIG. */
int files_read(struct files *f, const char *name, size_t max, char **ret, size_t *len,
	struct mlr_error *err);

/* pread(2) of exactly len bytes. Returns 0, or -errno; -EIO if there are fewer. */
int files_part_read(const struct files_part *p, uint64_t at, void *buf, size_t len);

MLR_CLEANUP(files_cleanup, struct files *, files_free);
