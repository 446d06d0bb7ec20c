/*
 * The files of a bundle by name: those below a directory, or those in a tar archive, compressed or
 * not. Names are paths like "blobs/sha256/ab…". For this room's other files.
 *
 * A bundle is hostile: nothing outside the directory is ever opened, whatever its symlinks say;
 * links of an archive lead to its own members only. Any thread may find and read.
 */
#ifndef MLR_PULL_FILES_H
#define MLR_PULL_FILES_H

#include "base/error.h"
#include "pull/plain.h"

#include <stddef.h>
#include <stdint.h>

/* Members of an archive, and bytes of their names: an image has some hundred. */
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

/* Of an open file or directory; fd stays the caller's. Returns 0; -EPROTO for what is no archive;
 * -EFBIG past a limit, also for an archive with so many members; what plain_open() says. */
int files_open_fd(
	int fd, const struct plain_options *opt, struct files **ret, struct mlr_error *err);
void files_free(struct files *f);

/* Does the mark of its end follow a plain tar's last member? One that was cut between two members
 * has none. Returns 0, -EPROTO with a way out, or as above. */
int files_check_end(int fd, const struct plain_options *opt, struct mlr_error *err);

/* Returns 0, -ENOENT, or -EPROTO for what is no regular file. */
int files_find(struct files *f, const char *name, struct files_part *ret, struct mlr_error *err);

/* A whole file of at most max bytes and a NUL, to free(). Returns as above, and -EFBIG. */
int files_read(struct files *f, const char *name, size_t max, char **ret, size_t *len,
	struct mlr_error *err);

/* pread(2) of exactly len bytes. Returns 0, or -errno; -EIO when there are fewer. */
int files_part_read(const struct files_part *p, uint64_t at, void *buf, size_t len);

static inline void files_cleanup(struct files **f)
{
	files_free(*f);
}

#endif
