#include "export/pack.h"

#include "layer/codec.h"
#include "rootfs/layers.h"
#include "store/blob.h"
#include "store/tree.h"

#define CHUNK (256u << 10) /* between two looks at cancel */

/* Tar bytes in, compressed bytes to the file. */
struct press {
	struct layer_deflate *deflate; /* NULL: plain */
	const int *cancel;
	int fd;
	struct hash *hash;
	uint64_t size;
	const struct pack_watch *watch; /* or NULL */
};

void pack_done(struct pack *p)
{
	fd_close(&p->fd);
	*p = (struct pack)PACK_INIT;
}

static int keep(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct press *p = ctx;

	TRY(mlr_result(err, file_write_all(p->fd, buf, len), "write a temporary file"));
	hash_update(p->hash, buf, len);
	p->size += len;
	if (p->watch)
		p->watch->grown(p->watch->ctx, p->fd, p->size);
	return 0;
}

static int put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct press *p = ctx;

	if (p->cancel && __atomic_load_n(p->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	for (size_t done = 0; done < len;) {
		size_t n = len - done < CHUNK ? len - done : CHUNK;
		const char *at = (const char *)buf + done;

		TRY(p->deflate ? layer_deflate_run(p->deflate, at, n, 0, keep, p, err)
			       : keep(p, at, n, err));
		done += n;
	}
	return 0;
}

static void press_free(struct press *p)
{
	layer_deflate_free(p->deflate);
	hash_free(p->hash);
	free(p);
}

static void press_cleanup(struct press **p)
{
	if (*p)
		press_free(*p);
}

static struct press *press_new(enum oci_compression how, int fd, const int *cancel)
{
	struct press *p = xcalloc(1, sizeof(*p));

	p->deflate = layer_codec(how) ? layer_codec(how)->deflate() : NULL;
	p->cancel = cancel;
	p->fd = fd;
	p->hash = hash_new();
	return p;
}

static int open_record(struct store *st, const char *diff_id, struct mlr_error *err)
{
	int fd = rootfs_layer_record(st, diff_id, err);

	if (fd >= 0)
		return fd;
	mlr_wrap(err, "layer %s", diff_id);
	return mlr_hint(err, "mlrun rm the image and pull it again with --format=layers");
}

static int open_layer(
	struct store *st, const char *diff_id, int *record, int *tree, struct mlr_error *err)
{
	*record = open_record(st, diff_id, err);
	if (*record < 0)
		return *record;
	*tree = store_tree_open(st, STORE_LAYER, diff_id, err);
	return *tree;
}

static int is_own(const struct store *st)
{
	struct stat sb;

	return fstat(store_fd(st), &sb) == 0 && sb.st_uid == geteuid();
}

static int fail_layer(const struct store *st, int r, const char *diff_id, struct mlr_error *err)
{
	mlr_wrap(err, "layer %s", diff_id);
	if (r == -EACCES && !is_own(st))
		mlr_hint(
			err, "it belongs to another user: pull the image into a store of your own");
	return r;
}

int pack_check(struct store *st, const struct strv *diff_ids, struct mlr_error *err)
{
	for (size_t i = 0; i < diff_ids->n && !is_own(st); i++) {
		auto_close int tree = -1, record = -1;
		int r = open_layer(st, diff_ids->v[i], &record, &tree, err);

		if (r >= 0)
			r = layer_rebuild_check(record, tree, err);
		if (r < 0)
			return fail_layer(st, r, diff_ids->v[i], err);
	}
	return 0;
}

int pack_rebuild(struct store *st, const char *diff_id, layer_write_fn write, void *ctx,
	struct mlr_error *err)
{
	auto_close int tree = -1, record = -1;
	int r;

	TRY(open_layer(st, diff_id, &record, &tree, err));
	r = rootfs_layer_rebuild(diff_id, record, tree, write, ctx, err);
	if (r == -EBADMSG) {
		mlr_wrap(err, "layer %s", diff_id);
		return mlr_hint(err, "mlrun store verify --repair fetches it again");
	}
	return r < 0 ? fail_layer(st, r, diff_id, err) : 0;
}

static int store_temp(struct store *st, struct mlr_error *err)
{
	auto_close int dir = openat(store_fd(st), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir < 0 ? -1 : temp_open(dir, NULL);

	return fd >= 0 ? fd : temp_open(-1, err); /* a site's store may be read-only for us */
}

int pack_layer(struct store *st, const char *diff_id, enum oci_compression how, const int *cancel,
	const struct pack_watch *watch, struct pack *ret, struct mlr_error *err)
{
	auto_close int fd = store_temp(st, err);
	auto_call(press_cleanup) struct press *p = NULL;
	int r;

	if (fd < 0)
		return fd;
	p = press_new(how, fd, cancel);
	p->watch = watch;
	r = pack_rebuild(st, diff_id, put, p, err);
	if (r == 0)
		r = p->deflate ? layer_deflate_run(p->deflate, "", 0, 1, keep, p, err) : 0;
	if (r == -ENOSPC || r == -EDQUOT)
		mlr_hint(err,
			"each layer lies in '%s/tmp' while it is copied: mlrun prune or mlrun rm "
			"frees space there",
			store_path(st));
	if (r < 0)
		return r;
	ret->size = p->size;
	memcpy(ret->digest, "sha256:", 7);
	hash_final(p->hash, ret->digest + 7);
	ret->fd = take_fd(&fd);
	return 0;
}

static int check_blob(int fd, const struct oci_descriptor *blob, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	uint64_t bytes;

	TRY(mlr_result(err, hash_fd(fd, NULL, NULL, hex, &bytes), "read blob %s", blob->digest));
	if (bytes != blob->size || strcmp(hex, oci_digest_hex(blob->digest)) != 0)
		return mlr_fail(err, EBADMSG,
			"blob %s: the %" PRIu64 " bytes that were kept hash to sha256:%s",
			blob->digest, bytes, hex);
	return 0;
}

int pack_kept(struct store *st, const struct oci_descriptor *blob, struct pack *ret,
	struct mlr_error *err)
{
	auto_close int fd = store_blob_open(st, blob->digest, blob->size);

	if (fd < 0) {
		mlr_fail(err, ENOENT, "layer %s was not kept compressed", blob->digest);
		return mlr_hint(err,
			"pull it with --keep-blobs; or export without, which compresses the layers "
			"anew and gives the image another digest");
	}
	TRY(check_blob(fd, blob, err));
	ret->size = blob->size;
	memcpy(ret->digest, blob->digest, OCI_DIGEST_SIZE);
	ret->fd = take_fd(&fd);
	return 0;
}
