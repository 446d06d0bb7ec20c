#include "push/send.h"

#include "export/pack.h"
#include "store/blob.h"

/* A blob that one thread makes and another sends. */
struct blob {
	const struct send *send;
	const char *diff_id;
	enum oci_compression how;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	int fd;
	uint64_t size;
	int is_done, result;
	struct mlr_error err;
	char digest[OCI_DIGEST_SIZE];

	uint64_t told; /* bytes that sent was told of: a byte may be sent twice */
};

#define BLOB_INIT                                                                                \
	{                                                                                        \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .fd = -1 \
	}

static void blob_done(struct blob *b)
{
	fd_close(&b->fd);
}

/* The file is closed if making it fails, so keep a descriptor of our own. */
static void grown(void *ctx, int fd, uint64_t size)
{
	struct blob *b = ctx;

	pthread_mutex_lock(&b->lock);
	if (b->fd < 0)
		b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	b->size = size;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

static void *make_main(void *ctx)
{
	struct blob *b = ctx;
	const struct pack_watch watch = { grown, b };
	struct mlr_error err = MLR_ERROR_INIT;
	struct pack p = PACK_INIT;
	int r = pack_layer(b->send->st, b->diff_id, b->how, b->send->stop, &watch, &p, &err);

	pthread_mutex_lock(&b->lock);
	b->result = r;
	b->err = err;
	memcpy(b->digest, p.digest, sizeof(b->digest));
	b->is_done = 1;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	pack_done(&p);
	return NULL;
}

/* Wait for a byte at this offset, or for the end. Returns the bytes that there are. */
static int64_t await_bytes(struct blob *b, uint64_t at, struct mlr_error *err)
{
	int64_t ret;

	pthread_mutex_lock(&b->lock);
	while (!b->is_done && (b->size <= at || b->fd < 0))
		pthread_cond_wait(&b->changed, &b->lock);
	ret = b->result < 0 ? b->result : (int64_t)b->size;
	if (b->result < 0 && err)
		*err = b->err;
	pthread_mutex_unlock(&b->lock);
	return ret;
}

static ssize_t read_blob(void *ctx, uint64_t at, void *buf, size_t len, struct mlr_error *err)
{
	struct blob *b = ctx;
	int64_t size = await_bytes(b, at, err);
	ssize_t n;

	if (size < 0)
		return (ssize_t)size;
	if (at >= (uint64_t)size)
		return 0;
	if ((uint64_t)size - at < len)
		len = (size_t)((uint64_t)size - at);
	n = TEMP_FAILURE_RETRY(pread(b->fd, buf, len, (off_t)at));
	if (n <= 0)
		return mlr_fail(err, n < 0 ? errno : EIO, "read the compressed layer: %s",
			n < 0 ? strerror(errno) : "it has become shorter");
	if (at + (uint64_t)n > b->told) {
		__atomic_add_fetch(b->send->sent, at + (uint64_t)n - b->told, __ATOMIC_RELAXED);
		b->told = at + (uint64_t)n;
	}
	return n;
}

static int64_t size_of_blob(void *ctx, struct mlr_error *err)
{
	return await_bytes(ctx, UINT64_MAX, err);
}

static int upload(struct blob *b, const char *what, struct mlr_error *err)
{
	const struct registry_upload u = {
		.what = what, .digest = b->digest, .read = read_blob, .size = size_of_blob, .ctx = b
	};

	return registry_blob_upload(b->send->registry, &u, err);
}

int send_layer(const struct send *s, const char *what, const char *diff_id,
	enum oci_compression how, char digest[OCI_DIGEST_SIZE], uint64_t *size,
	struct mlr_error *err)
{
	auto_call(blob_done) struct blob b = BLOB_INIT;
	pthread_t maker;
	int r;

	b.send = s;
	b.diff_id = diff_id;
	b.how = how;
	r = pthread_create(&maker, NULL, make_main, &b);
	if (r != 0)
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	r = upload(&b, what, err);
	if (r < 0)
		__atomic_store_n(s->stop, 1, __ATOMIC_RELAXED);
	pthread_join(maker, NULL);
	TRY(r);
	memcpy(digest, b.digest, sizeof(b.digest));
	*size = b.size;
	return 0;
}

int send_kept(const struct send *s, const char *what, const struct oci_descriptor *blob,
	struct mlr_error *err)
{
	auto_call(blob_done) struct blob b = BLOB_INIT;
	auto_call(pack_done) struct pack p = PACK_INIT;

	if (!store_blob_is_kept(s->st, blob->digest, blob->size))
		return 0;
	TRY(pack_kept(s->st, blob, &p, err));
	b.send = s;
	b.fd = take_fd(&p.fd);
	b.size = p.size;
	b.is_done = 1;
	memcpy(b.digest, blob->digest, sizeof(b.digest));
	TRY(upload(&b, what, err));
	return 1;
}

/* A document's bytes. */
struct text {
	const char *text;
	size_t len;
};

static ssize_t read_text(void *ctx, uint64_t at, void *buf, size_t len, struct mlr_error *err)
{
	const struct text *t = ctx;
	size_t left = at < t->len ? t->len - (size_t)at : 0;

	if (len > left)
		len = left;
	memcpy(buf, t->text + t->len - left, len);
	return (ssize_t)len;
}

static int64_t size_of_text(void *ctx, struct mlr_error *err)
{
	const struct text *t = ctx;

	return (int64_t)t->len;
}

int send_document(const struct send *s, const char *what, const char *digest, const char *text,
	size_t len, struct mlr_error *err)
{
	struct text t = { text, len };
	const struct registry_upload u = {
		.what = what, .digest = digest, .read = read_text, .size = size_of_text, .ctx = &t
	};
	int r = registry_blob_has(s->registry, digest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	return registry_blob_upload(s->registry, &u, err);
}
