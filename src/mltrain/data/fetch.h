/* Downloads files into a directory; only complete files with the right digest appear. */
#pragma once

#include "base/base.h"

#define DOWNLOAD_BYTES_MAX ((uint64_t)64 << 30) /* of a file */
#define DOWNLOAD_TRIES     5                    /* if the error may be temporary */

/* Called now and then; total is 0 while unknown. */
typedef void (*download_tell)(void *ctx, const char *name, uint64_t done, uint64_t total);

struct download {
	int dirfd;
	const char *name; /* of the file; the part's name derives from it */
	const char
		*cacert; /* PEM file of CA certificates to use instead of the system's, or NULL */
	download_tell tell; /* may be NULL */
	void *ctx;
	long stall_s;  /* a connection without a byte for so long is broken; 0: 60 */
	long pause_ms; /* before the second try, doubled before each further one; 0: 1000 */
};

/* Copy a URL without user name and password, for messages, to free(). */
char *download_shown(const char *url);

/* Return the name of the part, to free(). */
char *download_part(const char *name);

/*
 * Download a URL (http, https, file) into the part, with several tries. A redirect from https to
 * http is not followed.
 *
 * Returns 0, -EHOSTUNREACH for an unknown host, -ECONNREFUSED, -ECONNRESET for a
 * broken connection, -ETIMEDOUT, -ENOENT for 404 and 410, -EACCES for 401 and 403, -EPERM for
 * an untrusted certificate, -EFBIG, -EIO, -EPROTO, -ENOSPC and kin. The bytes received so far stay
 * in the part. Errors name the URL as download_shown() does.
 */
int download(const struct download *d, const char *url, struct mlr_error *err);

/* Remove the part, so that the next download begins anew. */
void download_drop(int dirfd, const char *name);

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
	const struct archive_files *archive; /* the contents of its one file (below), or NULL */
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
	long stall_s, pause_ms; /* as above */
};

/*
 * Fetch one file.
 *
 *   urls     tried in this order; NULL after the last
 *   name     of the file, without a slash
 *   sha256   the expected digest; NULL: the one in SHA256SUMS of the directory, or else any, which
 * is then recorded there
 *
 * An archive that archive_files_find() knows is unpacked and removed. Processes in the same
 * directory take turns.
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

/* --- unpack.c: unpacks archives of data sets, only the files that are known by name --- */

#define ARCHIVE_FILES_MAX 8
#define ARCHIVE_ENTRY_MAX ((uint64_t)512 << 20) /* bytes of a file in it */
#define ARCHIVE_SKIP_MAX  ((uint64_t)1 << 30)   /* bytes of what is passed over, all together */

struct archive_files {
	const char *archive;                  /* name of the archive */
	const char *dir;                      /* their directory in the archive */
	const char *files[ARCHIVE_FILES_MAX]; /* NULL after the last */
};

extern const struct archive_files archive_cifar_10, archive_cifar_100;

/* Find the contents of an archive by its name, or NULL. */
const struct archive_files *archive_files_find(const char *archive);

/*
 * Unpack the known regular files dir/NAME of a tar, compressed by gzip or not, and ignore all other
 * entries. They replace older files all together at the end.
 *
 *   dirfd, name   the archive; its files go into dirfd
 *
 * Returns 0, -EPROTO if the archive is damaged, lacks a file or has it as a link, -EFBIG above the
 * limits, -ENOSPC and kin. A failure leaves the directory unchanged.
 */
int archive_unpack(
	int dirfd, const char *name, const struct archive_files *known, struct mlr_error *err);
