/*
 * One URL into one file, by libcurl: what is there already is not asked for again.
 *
 * The bytes lie in .NAME.part until they are all there, and .NAME.part.from beside it says which
 * URL and which version (its ETag or Last-Modified) they are of. The rest is then asked for with
 * Range and If-Range (RFC 9110, sections 13.1.5 and 14.2), so that a file that has changed
 * meanwhile begins anew. Proxies come from curl's environment variables (curl(1), "ENVIRONMENT").
 */
#ifndef MLT_DATA_DOWNLOAD_H
#define MLT_DATA_DOWNLOAD_H

#include "base/error.h"

#include <stdint.h>

#define DOWNLOAD_BYTES_MAX ((uint64_t)64 << 30) /* of a file */
#define DOWNLOAD_TRIES     5                    /* after what may be better another time */

/* Told now and then; total is 0 where it is not known. */
typedef void (*download_tell)(void *ctx, const char *name, uint64_t done, uint64_t total);

struct download {
	int dirfd;
	const char *name;   /* the file's; the part's is made of it */
	const char *cacert; /* PEM of CA certificates in place of the usual ones, or NULL */
	download_tell tell; /* may be NULL */
	void *ctx;
	long stall_s;  /* so long without a byte, a connection counts as broken; 0: 60 */
	long pause_ms; /* before the second try, twice that before the third …; 0: 1000 */
};

/* A URL without the user's name and password, for messages; to free(). */
char *download_shown(const char *url);

/* Name of the part, to free(). */
char *download_part(const char *name);

/*
 * Bring a URL (http, https, file) into the part, several tries in all. From https no redirect leads
 * to http.
 *
 * Returns 0, -EHOSTUNREACH for a host that is not found, -ECONNREFUSED, -ECONNRESET for a
 * connection that breaks, -ETIMEDOUT, -ENOENT for 404 and 410, -EACCES for 401 and 403, -EPERM for
 * a certificate that is not trusted, -EFBIG, -EIO, -EPROTO, -ENOSPC and kin. What has come so far
 * stays in the part. Errors name the URL as download_shown() does.
 */
int download(const struct download *d, const char *url, struct mlr_error *err);

/* Forget the part, so that the next download begins anew. */
void download_drop(int dirfd, const char *name);

#endif
