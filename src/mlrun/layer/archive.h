/* Writes a layer's tar: in pax format, with UTF-8 names, and the same bytes for the same members.
 */
#pragma once

#include "layer/record.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

/* Give the calling thread another locale: in one without UTF-8 libarchive writes names beyond ASCII
 * as binary ones, of which other programs warn, and cannot read them; in "C" it changes no name. */
struct layer_locale {
	locale_t own, was;
};

void layer_locale_begin(struct layer_locale *l, const char *name);
void layer_locale_end(struct layer_locale *l);

struct layer_archive;

/* Begin; write gets the bytes. Returns 0 or write's error. */
int layer_archive_open(
	layer_write_fn write, void *to, struct layer_archive **ret, struct mlr_error *err);

/* Put a member; as layer_entry_put(). */
int layer_archive_put(struct layer_archive *a, struct archive_entry *e, const char *path, int fd,
	struct mlr_error *err);

/* Put a member as it is: links and extended attributes are those that it has. fd: the data of a
 * regular file; -1: none. Returns as above. */
int layer_archive_put_plain(struct layer_archive *a, struct archive_entry *e, const char *path,
	int fd, struct mlr_error *err);

/* Put a regular file with these bytes. */
int layer_archive_put_bytes(struct layer_archive *a, struct archive_entry *e, const void *buf,
	size_t len, struct mlr_error *err);

/* A libarchive reader of a tar, from its beginning, perhaps compressed with gzip, bzip2, xz or
 * zstd; NULL if it is none. fd stays the caller's. */
struct archive *layer_archive_reader(int fd);

MLR_CLEANUP(layer_archive_reader_cleanup, struct archive *, archive_read_free);

/* Put a whiteout or an opaque mark, "a/.wh.b": a member that consists of its name. */
int layer_archive_put_mark(struct layer_archive *a, const char *path, struct mlr_error *err);

/* Is the file a tar, perhaps compressed with gzip, bzip2, xz or zstd? */
int layer_archive_is_tar(int fd);

/* How members of another tar are put. */
struct layer_archive_merge {
	const char *prefix; /* before their names; "" or without '/' at its ends */
	int64_t uid, gid;   /* -1: their own */
	int64_t newest;     /* later times become this one; 0: none do */
	const int *cancel;  /* read atomically; not 0 stops it. May be NULL */
};

/*
 * Put the members of a tar file. Devices are left out, as are extended attributes but user's.
 *
 * Returns 0; -EPROTO for a damaged tar, or for a name that would lead out of the prefix;
 * -ECANCELED; write's error.
 */
int layer_archive_merge(struct layer_archive *a, int fd, const struct layer_archive_merge *how,
	struct mlr_error *err);

/* Write the end, unless failed says that the tar is given up; frees a. Returns failed, or write's
 * error. */
int layer_archive_close(struct layer_archive *a, int failed, struct mlr_error *err);
