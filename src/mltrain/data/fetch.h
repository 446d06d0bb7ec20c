/*
 * Files from the internet into a directory, whole and checked or not at all.
 */
#ifndef MLT_DATA_FETCH_H
#define MLT_DATA_FETCH_H

#include "base/error.h"
#include "base/hash.h"
#include "data/download.h"
#include "data/known_sets.h"

enum fetch_moment {
	FETCH_WAITS,    /* another process is at work in the directory */
	FETCH_THERE,    /* the file is there already, and is the right one */
	FETCH_OTHER,    /* a file of that name is there, and is another one: it will be replaced */
	FETCH_FAILED,   /* from one URL, whose error it is; the next one is tried */
	FETCH_DONE,     /* the file is there, with the digest that was expected */
	FETCH_RECORDED, /* the file is there; nobody said what its digest should be */
	FETCH_UNPACKED, /* the archive is, and is gone */
};

struct fetch_options {
	const char *dir; /* made where it is not there */
	const char *cacert;
	/* The text is the file's digest, or with FETCH_FAILED the error. */
	void (*tell)(void *ctx, enum fetch_moment moment, const char *name, const char *text);
	download_tell progress; /* may be NULL */
	void *ctx;
	long stall_s, pause_ms; /* as download.h's */
};

/*
 * Bring one file.
 *
 *   urls     tried in this order; NULL after the last
 *   name     of the file; no slash in it
 *   sha256   what it must be, or NULL: what SHA256SUMS in the directory says, and where that says
 *            nothing it is written down there
 *
 * An archive of unpack.h's is unpacked and removed. Processes that work in the same directory take
 * turns.
 *
 * Returns 0, -EBADMSG for a file of another digest (both are told), what download() gives for the
 * last URL, -EPROTO for a damaged archive, -EACCES, -ENOSPC and kin. Afterwards the file is there
 * and right, or what was there before is.
 */
int fetch_file(const struct fetch_options *o, const char *const *urls, const char *name,
	const char *sha256, struct mlr_error *err);

/*
 * Bring a known set into the directory.
 *
 *   mirror   a URL under which the set's files lie, tried before its own; or NULL
 */
int fetch_set(const struct fetch_options *o, const struct known_set *set, const char *mirror,
	struct mlr_error *err);

/* The name that a URL's file gets: what stands after the last slash, to free(); NULL where that is
 * no name for a file. */
char *fetch_name(const char *url);

#endif
