#include "store/blob.h"

#include "base/base.h"
#include "oci/digest.h"

static int blob_path(const char *digest, char path[96], struct mlr_error *err)
{
	int r = oci_digest_check(digest, err);

	if (r < 0) {
		mlr_wrap(err, "blob '%.100s'", digest);
		return r;
	}
	snprintf(path, 96, "blobs/sha256/%.64s", oci_digest_hex(digest));
	return 0;
}

static int check(const char *digest, const void *buf, size_t len, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];

	hash_buffer(buf, len, hex);
	if (strcmp(hex, oci_digest_hex(digest)) != 0)
		return mlr_fail(
			err, EBADMSG, "blob %s: its %zu bytes hash to sha256:%s", digest, len, hex);
	return 0;
}

int store_blob_put(
	struct store *st, const char *digest, const void *buf, size_t len, struct mlr_error *err)
{
	auto_free char *there = NULL;
	char path[96];
	int r;

	TRY(blob_path(digest, path, err));
	if (len > STORE_BLOB_MAX)
		return mlr_fail(err, EFBIG, "blob %s: %zu bytes, more than the %u allowed", digest,
			len, STORE_BLOB_MAX);
	TRY(check(digest, buf, len, err));
	TRY(store_hold(st, err));
	if (store_blob_get(st, digest, &there, NULL, NULL) == 0)
		return 0; /* already there and undamaged */
	r = file_replace(store_fd(st), path, buf, len, 0644, err);
	if (r < 0)
		mlr_wrap(err, "blob %s", digest);
	return r;
}

int store_blob_get(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	char path[96];
	size_t n = 0;
	int r;

	TRY(blob_path(digest, path, err));
	r = file_read(store_fd(st), path, STORE_BLOB_MAX, &buf, &n, err);
	if (r < 0) {
		mlr_wrap(err, "store '%s'", store_path(st));
		return r;
	}
	r = check(digest, buf, n, err);
	if (r < 0) {
		mlr_wrap(err, "store '%s'", store_path(st));
		mlr_hint(err, "the file was damaged on disk; pull the image again");
		return r;
	}
	*ret = take_ptr(&buf);
	if (len)
		*len = n;
	return 0;
}
