#include "rootfs/fill.h"

#include "layer/unpack.h"
#include "rootfs/flatten.h"
#include "rootfs/layers.h"
#include "store/tree.h"

#define PIPE_SIZE (1 << 20)

struct measure {
	struct hash *hash;
	uint64_t bytes;
};

static int count(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct measure *m = ctx;

	hash_update(m->hash, buf, len);
	m->bytes += len;
	return 0;
}

int rootfs_fill_digest(rootfs_tar_fn tar, void *ctx, char diff_id[OCI_DIGEST_SIZE], uint64_t *bytes,
	struct mlr_error *err)
{
	auto_hash struct hash *hash = hash_new();
	struct measure m = { hash, 0 };

	TRY(tar(ctx, count, &m, err));
	memcpy(diff_id, "sha256:", 7);
	hash_final(hash, diff_id + 7);
	*bytes = m.bytes;
	return 0;
}

/* The tar goes through a pipe from one thread to another. */
struct flow {
	rootfs_tar_fn tar;
	void *ctx;
	int in, out;
	int result; /* of tar */
	struct mlr_error err;
};

static int put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct flow *f = ctx;
	return mlr_result(err, file_write_all(f->in, buf, len), "write to a pipe");
}

static void *flow_main(void *ctx)
{
	struct flow *f = ctx;

	f->result = f->tar(f->ctx, put, f, &f->err);
	close(f->in);
	return NULL;
}

/* The thread blocks all signals; SIGPIPE becomes an errno. */
static int flow_start(struct flow *f, pthread_t *thread, struct mlr_error *err)
{
	sigset_t all, was;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	r = pthread_create(thread, NULL, flow_main, f);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return r ? mlr_fail(err, r, "start a thread: %s", strerror(r)) : 0;
}

static ssize_t get(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct flow *f = ctx;
	ssize_t n;

	n = TEMP_FAILURE_RETRY(read(f->out, buf, len));
	return n < 0 ? mlr_fail_errno(err, "read from a pipe") : n;
}

static int flow_open(struct flow *f, struct mlr_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	f->out = ends[0];
	f->in = ends[1];
	fcntl(f->in, F_SETPIPE_SZ, PIPE_SIZE); /* best effort */
	return 0;
}

/* If both ends fail, report the reader's failure if the writer failed only because the reader
 * left. */
static int unpack(
	struct flow *f, struct store_tree *tree, struct layer_result *ret, struct mlr_error *err)
{
	auto_close int record = store_tree_note_open(tree, LAYER_RECORD_NAME, err);
	pthread_t thread;
	int r;

	TRY(record < 0 ? record : flow_open(f, err));
	r = flow_start(f, &thread, err);
	if (r < 0) {
		close(f->in);
		close(f->out);
		return r;
	}
	r = layer_unpack(get, f, OCI_PLAIN, store_tree_fd(tree), record, ret, err);
	close(f->out);
	pthread_join(thread, NULL);
	if (f->result < 0 && f->result != -EPIPE) {
		if (err)
			*err = f->err;
		return f->result;
	}
	return r;
}

int rootfs_fill(
	struct store *st, const char *diff_id, rootfs_tar_fn tar, void *ctx, struct mlr_error *err)
{
	auto_call(layer_result_done) struct layer_result result = { 0 };
	auto_call(store_tree_cleanup) struct store_tree *tree = NULL;
	struct flow f = { .tar = tar, .ctx = ctx, .in = -1, .out = -1 };
	int r = store_tree_begin(st, STORE_LAYER, diff_id, &tree, err);

	if (r != 0)
		return r < 0 ? r : 0;
	TRY(unpack(&f, tree, &result, err));
	if (strcmp(result.diff_id, diff_id) != 0)
		return mlr_fail(err, EBUSY, "the files changed while they were read");
	TRY(rootfs_layer_note(tree, &result, err));
	return store_tree_publish(take_ptr(&tree), err);
}

/* --- from another store --------------------------------------------------- */

struct stored {
	int record, tree;
	const char *diff_id;
};

static int rewrite(void *ctx, layer_write_fn write, void *to, struct mlr_error *err)
{
	const struct stored *s = ctx;

	return rootfs_layer_rebuild(s->diff_id, s->record, s->tree, write, to, err);
}

int rootfs_fill_from(
	struct store *st, struct store *from, const char *diff_id, struct mlr_error *err)
{
	auto_close int record = -1, tree = -1;
	struct stored s;

	if (store_tree_exists(st, STORE_LAYER, diff_id))
		return 0;
	TRY(tree = store_tree_open(from, STORE_LAYER, diff_id, err));
	TRY(record = rootfs_layer_record(from, diff_id, err));
	s = (struct stored){ record, tree, diff_id };
	return rootfs_fill(st, diff_id, rewrite, &s, err) < 0
		? mlr_wrap(err, "layer %s of store '%s'", diff_id, store_path(from))
		: 0;
}
