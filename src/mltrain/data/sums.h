/*
 * Reads and writes SHA256SUMS in a directory of downloads: a line "HEX  NAME" for each file, in
 * sha256sum(1)'s format.
 */
#ifndef MLT_DATA_SUMS_H
#define MLT_DATA_SUMS_H

#include "base/error.h"
#include "base/hash.h"

#define SUMS_FILE      "SHA256SUMS"
#define SUMS_BYTES_MAX ((size_t)1 << 20)

/* Does text consist of 64 hexadecimal digits in lower case? */
int sums_is_digest(const char *hex);

/* Find the digest of a file. Returns 1, 0 if it is not listed, or -errno. */
int sums_find(int dirfd, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err);

/* Set the digest of a file. Returns 0 or -errno. */
int sums_put(int dirfd, const char *name, const char *hex, struct mlr_error *err);

#endif
