/*
 * Owners of files that can have no extended attributes (base/file_owner.h): links and fifos. A
 * container that keeps what is written has them in a file beside its upper directory, a layer
 * beside its tree, one record a change, the last one counts:
 *
 *   "INODE SECONDS NANOSECONDS UID GID PATH\0"   in decimal; the path in the container, without a
 *                                                leading '/', at the time of the change
 *
 * A file is the one of a record if it was created at that time, as statx(2) tells, and has that
 * inode number: it may have been renamed since. A link that an overlay copied up has another number
 * as soon as the kernel has forgotten the lower one (Documentation/filesystems/overlayfs.rst), so
 * that one is known by its path instead. Files whose file system does not tell when they were
 * created are known only until the owners_file is closed.
 */
#pragma once

#include "base/file_owner.h"

#define OWNERS_FILE_NAME "owners" /* beside "upper" or "tree" */

struct owners_file {
	int fd;         /* -1: only in memory */
	off_t read;     /* what is known of the file */
	size_t n;       /* records that are known */
	void *by_inode; /* trees of tsearch(3) */
	void *by_path;
};

#define OWNERS_FILE_INIT             \
	{                            \
		-1, 0, 0, NULL, NULL \
	}
void owners_file_done(struct owners_file *o);

/* Use a file that is open for reading, and for appending if owners are set. It is the owners_file's
 * from now on. */
void owners_file_open(struct owners_file *o, int fd);

/* Read what others have added. Returns whether there are records. */
int owners_file_has_any(struct owners_file *o);

/* The identity of a file. */
struct owners_file_key {
	uint64_t ino;
	int64_t seconds; /* when it was created; 0: unknown */
	uint32_t nanoseconds;
	uint64_t dev; /* where that is unknown, else 0 */
	const char *path;
};

/* As statx(2); name may be "" with AT_EMPTY_PATH. Returns 0 or -errno. */
int owners_file_key_of(
	int dirfd, const char *name, int flags, const char *path, struct owners_file_key *ret);

/* Returns 1 if there is a record, else 0. Only the ids of *ret are used. */
int owners_file_find(
	struct owners_file *o, const struct owners_file_key *key, struct file_owner *ret);

/* Write a record, without its '\0'; to free(). */
char *owners_file_text(const struct owners_file_key *key, const struct file_owner *owner);

/* Returns 0, or -errno if it is only in memory. */
int owners_file_set(
	struct owners_file *o, const struct owners_file_key *key, const struct file_owner *owner);
