/* Puts files into an archive as members. */
#pragma once

#include "base/base.h"

#include <archive_entry.h>

/* Bytes; an xattr's value is smaller. */
#define LAYER_ENTRY_BUFFER (256u << 10)

/* The archive. */
struct layer_entry_target {
	struct archive *archive;
	struct archive_entry_linkresolver *links;
	char *buf; /* LAYER_ENTRY_BUFFER */
	/* Checks the result of each call on the archive; returns 0, or -errno with err set to stop.
	 */
	int (*check)(void *ctx, int result, struct mlr_error *err);
	void *ctx;
};

/* A member to fill in, for auto_call(layer_entry_free). */
struct archive_entry *layer_entry_new(void);
void layer_entry_free(struct archive_entry **e);

/* Fill in a file's name in the archive, all that archive_entry_copy_stat() sets, and a symlink's
 * target. Returns 0, or -errno if it cannot be read. */
int layer_entry_describe(struct archive_entry *e, int dir, const char *name, const char *path,
	const struct stat *st);

/*
 * Put a member and its data; a second name of a file becomes a hard link. The member gets the
 * file's user.* xattrs except overlayfs's own, its file capabilities (base/file_owner.h), and
 * nothing that would differ in a copy of the same files.
 *
 *   e     its name, owner and all that archive_entry_copy_stat() sets
 *   path  for messages, without a leading '/'
 *   fd    the file or directory; -1 for other types
 *
 * Returns 0; -EBUSY if the file became shorter; -errno if it cannot be read; check's error.
 */
int layer_entry_put(const struct layer_entry_target *to, struct archive_entry *e, const char *path,
	int fd, struct mlr_error *err);

/* The same for a member with all its attributes, which is no link that is to be found. */
int layer_entry_put_plain(const struct layer_entry_target *to, struct archive_entry *e,
	const char *path, int fd, struct mlr_error *err);
