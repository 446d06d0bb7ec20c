/*
 * Downloads one URL into one file with libcurl and continues interrupted downloads.
 *
 * .NAME.part holds the bytes until the file is complete. .NAME.part.from records the URL and the
 * version (ETag or Last-Modified). The rest is requested with Range and If-Range (RFC 9110,
 * sections 13.1.5 and 14.2), so that the download of a file that has changed begins anew. Proxies
 * come from curl's environment variables (curl(1), "ENVIRONMENT").
 */
#ifndef MLT_DATA_DOWNLOAD_H
#define MLT_DATA_DOWNLOAD_H

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

#endif
