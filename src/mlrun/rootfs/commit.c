#include "rootfs/commit.h"

#include "base/owners_file.h"
#include "oci/config.h"
#include "oci/manifest.h"
#include "recipe/derive.h"
#include "rootfs/fill.h"
#include "rootfs/image.h"
#include "rootfs/kept.h"
#include "rootfs/upper.h"
#include "store/blob.h"
#include "store/container.h"
#include "store/tree.h"

struct committing {
	struct store *st;
	const struct rootfs_commit *opt;
	struct store_container c;
	struct store *base_st; /* the store that has the image below; borrowed */
	struct store_facts base;
	struct oci_document manifest;
	char *config;
	size_t config_len;
	struct oci_layer *layers; /* the new image's; contents borrowed */
	size_t n_layers;
	struct instruction *changes;
	size_t n_changes;
	struct rootfs_committed result;
};

void rootfs_committed_done(struct rootfs_committed *c)
{
	store_image_done(&c->image);
	strv_done(&c->omitted);
	*c = (struct rootfs_committed)ROOTFS_COMMITTED_INIT;
}

static void committing_done(struct committing *m)
{
	store_container_done(&m->c);
	store_facts_done(&m->base);
	oci_document_done(&m->manifest);
	rootfs_committed_done(&m->result);
	free_all(m->changes, m->n_changes, instruction_done);
	free(m->layers);
	free(m->config);
}

static int is_cancelled(void *ctx)
{
	const struct committing *m = ctx;

	return m->opt->cancel && __atomic_load_n(m->opt->cancel, __ATOMIC_RELAXED);
}

/* Protect the container and the store's contents from removal. */
static int take_container(struct committing *m, struct mlr_error *err)
{
	int made;

	TRY(store_hold(m->st, err));
	TRY(store_container_open(m->st, m->opt->container, NULL, &m->c, &made, err));
	m->result.is_running = store_container_is_joined(m->st, m->c.name);
	return 0;
}

/* Read the documents of the image below. */
static int load_base(struct committing *m, const struct stores *others, struct mlr_error *err)
{
	const struct store_container *c = &m->c;
	const struct stores own = { &m->st, 1, 1 };
	auto_free char *text = NULL;
	size_t len;
	int r = rootfs_kept_image(&own, c->name, c->image, c->manifest, &m->base_st, &m->base, err);

	if (r == -ENXIO)
		r = rootfs_kept_image(
			others, c->name, c->image, c->manifest, &m->base_st, &m->base, err);
	TRY(r);
	TRY(store_blob_get(m->base_st, m->c.manifest, &text, &len, err));
	TRY(oci_document_parse(text, len, NULL, NULL, &m->manifest, err));
	TRY(store_blob_get(m->base_st, m->manifest.config.digest, &m->config, &m->config_len, err));
	if (m->manifest.n_layers != m->base.config.diff_ids.n)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			m->manifest.n_layers, m->base.config.diff_ids.n);
	if (m->manifest.n_layers < OCI_LAYERS_MAX)
		return 0;
	mlr_fail(err, E2BIG, "its image has %d layers already, and no image may have more",
		OCI_LAYERS_MAX);
	return mlr_hint(err, "mlrun export --format=tar and mlrun import make one layer of them");
}

static int bring_base(struct committing *m, struct mlr_error *err)
{
	const struct strv *ids = &m->base.config.diff_ids;

	for (size_t i = 0; i < ids->n; i++) {
		if (!store_tree_exists(m->base_st, STORE_LAYER, ids->v[i])) {
			mlr_fail(err, ENOENT, "store '%s' has image '%s' without its layers",
				store_path(m->base_st), m->c.image);
			rootfs_kept_hint(m->c.image, m->c.manifest, "--format=layers ", err);
			return -ENOENT;
		}
		if (m->base_st != m->st)
			TRY(rootfs_fill_from(m->st, m->base_st, ids->v[i], err));
	}
	return 0;
}

/* The owners that upper's files cannot have with them. */
static void open_owners(const struct store *st, const char *container, struct owners_file *ret)
{
	auto_free char *path = xasprintf("containers/%s/" OWNERS_FILE_NAME, container);

	owners_file_open(
		ret, openat(store_fd(st), path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

static int write_layer(struct store *st, int upper, struct owners_file *owners,
	const struct strv *diff_ids, const struct rootfs_writing *how, struct rootfs_written *ret,
	struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers layers = { 0 };
	auto_call(rootfs_names_done) struct rootfs_names names = { NULL, NULL };
	struct rootfs_upper u = { .fd = upper,
		.below = &layers,
		.names = &names,
		.newest = how->newest,
		.owners = owners,
		.cancel = how->cancel };
	int r;

	TRY(rootfs_layers_open(st, diff_ids, &layers, err));
	TRY(rootfs_names_read(st, diff_ids, &names, err));
	r = rootfs_fill_digest(rootfs_upper_tar, &u, ret->diff_id, &ret->bytes, err);
	if (r == 0)
		r = rootfs_fill(st, ret->diff_id, rootfs_upper_tar, &u, err);
	ret->omitted = u.omitted;
	return r;
}

int rootfs_commit_layer(const struct store *in, const char *container, struct store *st,
	const struct strv *diff_ids, const struct rootfs_writing *how, struct rootfs_written *ret,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("containers/%s/upper", container);
	auto_call(owners_file_done) struct owners_file owners = OWNERS_FILE_INIT;
	auto_close int upper =
		openat(store_fd(in), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	/* A container that was never started or written to gets no layer. */
	if (upper < 0 && errno == ENOENT)
		return 0;
	r = upper < 0 ? -errno : rootfs_upper_has_any(upper);
	if (r < 0)
		return mlr_result(err, r, "open '%s/%s'", store_path(in), path);
	if (r == 0)
		return 0;
	open_owners(in, container, &owners);
	return write_layer(st, upper, &owners, diff_ids, how, ret, err);
}

static int make_layer(struct committing *m, struct mlr_error *err)
{
	const struct rootfs_writing how = { .cancel = m->opt->cancel };
	struct rootfs_written w = { 0 };
	int r = rootfs_commit_layer(
		m->st, m->c.name, m->st, &m->base.config.diff_ids, &how, &w, err);

	if (r == -EBUSY)
		mlr_hint(err, "commit when the container's processes have ended, or rest");
	memcpy(m->result.diff_id, w.diff_id, sizeof(w.diff_id));
	m->result.bytes = w.bytes;
	m->result.omitted = w.omitted;
	return r;
}

static void list_layers(struct committing *m)
{
	size_t n = m->manifest.n_layers;

	m->layers = xcalloc(n + 1, sizeof(*m->layers));
	for (size_t i = 0; i < n; i++)
		m->layers[i] = m->manifest.layers[i];
	m->n_layers = n;
	if (!*m->result.diff_id)
		return;
	m->layers[n].blob = (struct oci_descriptor){ m->result.diff_id,
		(char *)oci_compression_type(OCI_PLAIN), m->result.bytes };
	m->layers[n].compression = OCI_PLAIN;
	m->n_layers = n + 1;
}

/* The new image's configuration, to free(). */
static int derive(const struct committing *m, char **ret, struct mlr_error *err)
{
	auto_free char *by = xasprintf("mlrun commit %s", m->c.name);
	char created[MLR_TIME_SIZE];
	struct derive d = { .diff_id = *m->result.diff_id ? m->result.diff_id : NULL,
		.created = created,
		.created_by = by,
		.author = m->opt->author,
		.comment = m->opt->message,
		.changes = m->changes,
		.n_changes = m->n_changes };

	mlr_time_utc(time(NULL), created);
	return derive_config(m->config, m->config_len, &d, ret, err);
}

static int put_image(struct committing *m, struct mlr_error *err)
{
	auto_free char *config = NULL;
	auto_free char *source = xasprintf("container:%s", m->c.name);

	TRY(derive(m, &config, err));
	list_layers(m);

	const struct rootfs_image im = { .config = config,
		.layers = m->layers,
		.n = m->n_layers,
		.source = source,
		.one_tree = !(m->base.formats & STORE_FORMAT_LAYERS) &&
			(m->base.formats & STORE_FORMAT_DIR) };

	return rootfs_image_put(m->st, m->opt->image, &im, &m->result.image, err);
}

/* Check the changes before anything is done. */
static int try_changes(struct committing *m, struct mlr_error *err)
{
	auto_free char *config = NULL;

	TRY(derive_parse(m->opt->changes, &m->changes, &m->n_changes, err));
	return derive(m, &config, err);
}

static int run(struct committing *m, const struct stores *others, struct mlr_error *err)
{
	TRY(take_container(m, err));
	TRY(load_base(m, others, err));
	TRY(try_changes(m, err));
	TRY(bring_base(m, err));
	TRY(make_layer(m, err));
	return put_image(m, err);
}

int rootfs_commit(struct store *st, const struct stores *others, const struct rootfs_commit *opt,
	struct rootfs_committed *ret, struct mlr_error *err)
{
	auto_call(committing_done) struct committing m = {
		.st = st, .opt = opt, .result = ROOTFS_COMMITTED_INIT
	};
	int r;

	store_set_cancelled(st, is_cancelled, &m);
	r = run(&m, others, err);
	store_set_cancelled(st, NULL, NULL);
	if (r < 0) {
		if (store_hold_check(st, err) < 0)
			r = -ESTALE;
		if (r == -ENOSPC || r == -EDQUOT)
			mlr_hint(
				err, "mlrun prune or mlrun rm frees space in '%s'", store_path(st));
		mlr_wrap(err, "commit '%s'", opt->container);
		return r;
	}
	*ret = m.result;
	m.result = (struct rootfs_committed)ROOTFS_COMMITTED_INIT;
	return 0;
}
