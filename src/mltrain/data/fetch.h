/* Downloads files into a directory; only complete files with the right digest appear. */
#ifndef MLT_DATA_FETCH_H
#define MLT_DATA_FETCH_H

#include "data/download.h"

#define KNOWN_FILES_MAX   4
#define KNOWN_MIRRORS_MAX 3

/* A data set that `mltrain fetch` knows by name: the places and digests of its files. */
struct known_set {
	const char *name;
	const char
		*mirrors[KNOWN_MIRRORS_MAX]; /* directories, tried in order; NULL after the last */
	struct known_file {
		const char *name, *sha256;
	} files[KNOWN_FILES_MAX];            /* a NULL name after the last */
	const struct archive_files *archive; /* the contents of its one file (unpack.h), or NULL */
};

/* Find a set by name, or NULL. */
const struct known_set *known_set_find(const char *name);

/* Return "mnist, fashion-mnist, …". */
const char *known_set_names(void);

enum fetch_moment {
	FETCH_WAITS,    /* for another process in the directory */
	FETCH_THERE,    /* the file exists with the right digest */
	FETCH_OTHER,    /* a different file has that name; it will be replaced */
	FETCH_FAILED,   /* one URL failed; the next one is tried */
	FETCH_DONE,     /* the file is complete and has the expected digest */
	FETCH_RECORDED, /* the file is complete; its digest was unknown and is recorded now */
	FETCH_UNPACKED, /* the archive is unpacked and removed */
};

struct fetch_options {
	const char *dir; /* made if missing */
	const char *cacert;
	/* text: the file's digest; with FETCH_FAILED the error. */
	void (*tell)(void *ctx, enum fetch_moment moment, const char *name, const char *text);
	download_tell progress; /* may be NULL */
	void *ctx;
	long stall_s, pause_ms; /* as in download.h */
};

/*
 * Fetch one file.
 *
 *   urls     tried in this order; NULL after the last
 *   name     of the file, without a slash
 *   sha256   the expected digest; NULL: the one in SHA256SUMS of the directory, or else any, which
 * is then recorded there
 *
 * An archive that unpack.h knows is unpacked and removed. Processes in the same directory take
 * turns.
 *
 * Returns 0, -EBADMSG for a wrong digest (naming both), download()'s error for the last URL,
 * -EPROTO for a damaged archive, -EACCES, -ENOSPC and kin. After a failure an old file is intact.
 */
int fetch_file(const struct fetch_options *o, const char *const *urls, const char *name,
	const char *sha256, struct mlr_error *err);

/*
 * Fetch a known set into the directory.
 *
 *   mirror   a URL below which the set's files are, tried first; or NULL
 */
int fetch_set(const struct fetch_options *o, const struct known_set *set, const char *mirror,
	struct mlr_error *err);

/* Return a URL's file name, the part after the last slash, to free(); NULL if that is not a valid
 * file name. */
char *fetch_name(const char *url);

/* --- SHA256SUMS of a directory: a line "HEX  NAME" a file, as sha256sum(1) has it --- */

#define SUMS_FILE      "SHA256SUMS"
#define SUMS_BYTES_MAX ((size_t)1 << 20)

/* Does text consist of 64 hexadecimal digits in lower case? */
int fetch_sum_is_digest(const char *hex);

/* Find the digest of a file. Returns 1, 0 if it is not listed, or -errno. */
int fetch_sum_find(int dirfd, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err);

/* Set the digest of a file. Returns 0 or -errno. */
int fetch_sum_put(int dirfd, const char *name, const char *hex, struct mlr_error *err);

#endif
