/*
 * SHA256SUMS in a directory of downloads: a line "HEX  NAME" a file, as sha256sum(1) writes and
 * checks.
 */
#ifndef MLT_DATA_SUMS_H
#define MLT_DATA_SUMS_H

#include "base/error.h"
#include "base/hash.h"

#define SUMS_FILE      "SHA256SUMS"
#define SUMS_BYTES_MAX ((size_t)1 << 20)

/* Is it 64 hexadecimal digits, in lower case? */
int sums_is_digest(const char *hex);

/* What a file is said to be. Returns 1, 0 when it is not said, or -errno. */
int sums_find(int dirfd, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err);

/* Say it; other files' lines stay. Returns 0 or -errno. */
int sums_put(int dirfd, const char *name, const char *hex, struct mlr_error *err);

#endif
