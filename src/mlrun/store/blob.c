#include "store/blob.h"

#include "oci/digest.h"
#include "store/lock.h"
#include "store/trash.h"

/* Small documents, named by their digests: manifests, indexes, configurations. */

/* Bytes; registries refuse larger manifests (distribution-spec, "Pushing Manifests"). */
#define STORE_BLOB_MAX (4u << 20)

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

struct store_spool {
	struct store *st;
	char *digest, *path; /* "tmp/spool-<hex>" */
	struct store_lock *lock;
	int fd;
	uint64_t have;
};

static void spool_free(struct store_spool *s)
{
	if (!s)
		return;
	fd_close(&s->fd);
	store_lock_release(s->lock);
	free(s->digest);
	free(s->path);
	free(s);
}

MLR_CLEANUP(spool_cleanup, struct store_spool *, spool_free);

int store_spool_open(struct store *st, const char *digest, uint64_t size, struct store_spool **ret,
	struct mlr_error *err)
{
	auto_call(spool_cleanup) struct store_spool *s = NULL;
	auto_free char *lock = NULL, *what = xasprintf("fetching blob %s", digest);
	struct stat sb;

	TRY(oci_digest_check(digest, err));
	TRY(store_hold(st, err));
	s = xcalloc(1, sizeof(*s));
	s->st = st;
	s->fd = -1;
	s->digest = xstrdup(digest);
	s->path = xasprintf("tmp/spool-%.64s", oci_digest_hex(digest));
	lock = xasprintf("%s.lock", s->path);
	TRY(store_lock_take(st, lock, what, &s->lock, err));
	s->fd = openat(store_fd(st), s->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (s->fd < 0 || fstat(s->fd, &sb) < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(st), s->path);
	if ((uint64_t)sb.st_size > size && ftruncate(s->fd, 0) < 0)
		return mlr_fail_errno(err, "truncate '%s/%s'", store_path(st), s->path);
	s->have = (uint64_t)sb.st_size > size ? 0 : (uint64_t)sb.st_size;
	*ret = take_ptr(&s);
	return 0;
}

int store_spool_fd(const struct store_spool *s)
{
	return s->fd;
}

uint64_t store_spool_have(const struct store_spool *s)
{
	return s->have;
}

int store_spool_append(struct store_spool *s, const void *buf, size_t len, struct mlr_error *err)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(pwrite(s->fd, p, len, (off_t)s->have));

		if (n < 0)
			return mlr_fail_errno(err, "write '%s/%s'", store_path(s->st), s->path);
		s->have += (uint64_t)n;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int keep(struct store_spool *s, struct mlr_error *err)
{
	auto_free char *to = xasprintf("blobs/sha256/%.64s", oci_digest_hex(s->digest));
	int top = store_fd(s->st);

	if (fsync(s->fd) < 0)
		return mlr_fail_errno(err, "sync '%s/%s'", store_path(s->st), s->path);
	if (renameat(top, s->path, top, to) < 0)
		return mlr_fail_errno(
			err, "rename '%s' to '%s/%s'", s->path, store_path(s->st), to);
	return mlr_result(err, file_sync_dir(top, "blobs/sha256"), "sync '%s/blobs/sha256'",
		store_path(s->st));
}

int store_spool_keep(struct store_spool *s, struct mlr_error *err)
{
	int r = keep(s, err);

	spool_free(s);
	return r;
}

void store_spool_drop(struct store_spool *s)
{
	if (s && unlinkat(store_fd(s->st), s->path, 0) < 0)
		mlr_debug("store: remove '%s': %s", s->path, strerror(errno));
	spool_free(s);
}

void store_spool_leave(struct store_spool *s)
{
	if (s && s->have == 0) /* nothing to continue with */
		store_spool_drop(s);
	else
		spool_free(s);
}

int store_blob_open(struct store *st, const char *digest, uint64_t size)
{
	auto_free char *path = NULL;
	auto_close int fd = -1;
	struct stat sb;

	if (oci_digest_check(digest, NULL) < 0)
		return -EINVAL;
	path = xasprintf("blobs/sha256/%.64s", oci_digest_hex(digest));
	fd = openat(store_fd(st), path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != size)
		return -ENOENT;
	return take_fd(&fd);
}

int store_blob_is_kept(struct store *st, const char *digest, uint64_t size)
{
	auto_close int fd = store_blob_open(st, digest, size);

	return fd >= 0;
}

void store_blob_drop(struct store *st, const char *digest)
{
	auto_free char *path = xasprintf("blobs/sha256/%.64s", oci_digest_hex(digest));

	mlr_debug("store: '%s' is damaged", path);
	store_discard(st, path, NULL);
}
