#include "push/push.h"

#include "export/documents.h"
#include "oci/manifest.h"
#include "push/send.h"
#include "store/blob.h"
#include "store/cache.h"
#include "store/lease.h"

/* Finds layers that a registry has already, so that they need not be sent. */

/* Where to look. Shared by threads. */
struct reuse {
	struct store *st;
	struct registry *registry;
	const struct oci_ref *to;
	const struct documents *doc;
	enum oci_compression compression;
	int only;
	pthread_mutex_t lock; /* guards the members below */
	int is_listed;
	struct strv *places; /* for each layer, repositories that may have its original blob */
};

#define PLACES_MAX 8 /* that the store remembers of a blob */
#define MOUNTS_MAX 3 /* to try */
#define FORMAT     1 /* of the compressed bytes: another one is another blob */

static void reuse_done(struct reuse *u)
{
	for (size_t i = 0; u->places && i < u->doc->manifest.n_layers; i++)
		strv_done(&u->places[i]);
	free(u->places);
	pthread_mutex_destroy(&u->lock);
}

/* Is layer i's original blob, as the manifest names it, fit for this push? */
static int reuse_is_fit(const struct reuse *u, size_t i)
{
	enum oci_compression has = u->doc->manifest.layers[i].compression;

	return has == u->compression || (has != OCI_PLAIN && !u->only);
}

/* Note the repository of a stored image at the layers that are in it as well. */
static void note_places(struct reuse *u, const struct store_image *im)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_call(oci_document_done) struct oci_document doc = { 0 };
	auto_free char *text = NULL;
	size_t len;

	if (oci_ref_parse(im->name, &ref, NULL) < 0 || strcmp(ref.registry, u->to->registry) != 0 ||
		strcmp(ref.repository, u->to->repository) == 0 ||
		store_blob_get(u->st, im->manifest, &text, &len, NULL) < 0 ||
		oci_document_parse(text, len, NULL, NULL, &doc, NULL) < 0)
		return;
	for (size_t i = 0; i < u->doc->manifest.n_layers; i++)
		for (size_t j = 0; j < doc.n_layers; j++)
			if (strcmp(u->doc->manifest.layers[i].blob.digest,
				    doc.layers[j].blob.digest) == 0 &&
				!strv_has(&u->places[i], ref.repository))
				strv_add(&u->places[i], ref.repository);
}

/* The repositories that may have layer i's original blob, by the images of the store. */
static const struct strv *places_of(struct reuse *u, size_t i)
{
	struct store_image *images = NULL;
	size_t n = 0;

	pthread_mutex_lock(&u->lock);
	if (!u->is_listed) {
		u->is_listed = 1;
		u->places = xcalloc(u->doc->manifest.n_layers + 1, sizeof(*u->places));
		if (store_image_list(u->st, &images, &n, NULL) == 0) {
			for (size_t k = 0; k < n; k++)
				note_places(u, &images[k]);
			store_images_free(images, n);
		}
	}
	pthread_mutex_unlock(&u->lock);
	return &u->places[i];
}

/* Returns 2 once one of the last repositories gave the blob, or 0. */
static int mount_from(
	struct reuse *u, const char *digest, const struct strv *places, struct mlr_error *err)
{
	size_t tried = 0;

	for (size_t i = places->n; i-- > 0 && tried < MOUNTS_MAX; tried++) {
		int r = registry_blob_mount(u->registry, digest, places->v[i], err);

		if (r != 0)
			return r < 0 ? r : 2;
	}
	return 0;
}

/* Look for layer i's original blob. Returns 1 if the repository had it, 2 if it was mounted, 0 if
 * neither; -errno. */
static int reuse_original(struct reuse *u, size_t i, struct mlr_error *err)
{
	const char *digest = u->doc->manifest.layers[i].blob.digest;
	int r;

	if (!reuse_is_fit(u, i))
		return 0;
	r = registry_blob_has(u->registry, digest, err);
	return r != 0 ? r : mount_from(u, digest, places_of(u, i), err);
}

/* The key of what layer i becomes. */
static void key_of(const struct reuse *u, size_t i, char key[OCI_DIGEST_SIZE])
{
	auto_free char *words = xasprintf("blob %d %s %s", FORMAT,
		oci_compression_type(u->compression), u->doc->config.diff_ids.v[i]);

	hash_digest(words, strlen(words), key);
}

/* The repositories of this registry among the places of a blob, without ours. */
static void list_repositories(
	const struct reuse *u, const struct store_cache_blob *b, struct strv *ret)
{
	size_t n = strlen(u->to->registry);

	for (size_t i = 0; i < b->places.n; i++) {
		const char *place = b->places.v[i];

		if (strncmp(place, u->to->registry, n) == 0 && place[n] == '/' &&
			strcmp(place + n + 1, u->to->repository) != 0)
			strv_add(ret, place + n + 1);
	}
}

/* Look for the blob that layer i became in an earlier push. ret is set also if it returns 0 and the
 * store remembers one. Returns as above. */
static int reuse_packed(
	struct reuse *u, size_t i, struct store_cache_blob *ret, struct mlr_error *err)
{
	auto_strv struct strv repositories = STRV_INIT;
	char key[OCI_DIGEST_SIZE];
	int r;

	key_of(u, i, key);
	if (store_cache_blob_get(u->st, key, ret) < 0)
		return 0;
	r = registry_blob_has(u->registry, ret->digest, err);
	if (r != 0)
		return r;
	list_repositories(u, ret, &repositories);
	return mount_from(u, ret->digest, &repositories, err);
}

/* Remember what layer i became, and that the repository has it. */
static void reuse_remember(struct reuse *u, size_t i, struct store_cache_blob *b)
{
	auto_free char *place = xasprintf("%s/%s", u->to->registry, u->to->repository);
	struct store_cache_blob newest = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char key[OCI_DIGEST_SIZE];

	key_of(u, i, key);
	memcpy(newest.digest, b->digest, sizeof(newest.digest));
	newest.size = b->size;
	for (size_t k = b->places.n >= PLACES_MAX ? b->places.n - PLACES_MAX + 1 : 0;
		k < b->places.n; k++)
		if (strcmp(b->places.v[k], place) != 0)
			strv_add(&newest.places, b->places.v[k]);
	strv_add(&newest.places, place);
	/* A store of another user's is read-only: the next push compresses again. */
	if (store_cache_blob_put(u->st, key, &newest, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, "");
	store_cache_blob_done(&newest);
}

#define TICK_MS 100

/* What a layer is there. */
struct pushed {
	char digest[OCI_DIGEST_SIZE];
	uint64_t size;
	enum oci_compression compression;
	enum push_layer_end end;
};

struct pushing {
	struct store *st;
	const struct push_options *opt;
	struct documents doc;
	struct registry *registry;
	struct reuse reuse;
	struct send send;
	struct pushed *layers; /* one for each of the manifest's */
	uint64_t sent;         /* atomic: bytes */
	int stop;              /* atomic: set by the first failure and by *opt->cancel */
	pthread_t threads[PUSH_JOBS_MAX];
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	size_t next, running;
	int result; /* the first failure */
	struct mlr_error err;
};

static int is_stopped(void *ctx)
{
	const struct pushing *p = ctx;

	return __atomic_load_n(&p->stop, __ATOMIC_RELAXED);
}

static void pushing_done(struct pushing *p)
{
	registry_free(p->registry);
	reuse_done(&p->reuse);
	documents_done(&p->doc);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p->layers);
}

static void settle(struct pushed *l, const char *digest, uint64_t size, enum oci_compression how,
	enum push_layer_end end)
{
	memcpy(l->digest, digest, sizeof(l->digest));
	l->size = size;
	l->compression = how;
	l->end = end;
}

/* The original blob: the registry has it, or the store has kept it. Returns 1 if so, 0. */
static int push_original(struct pushing *p, size_t i, const char *what, struct mlr_error *err)
{
	const struct oci_layer *l = &p->doc.manifest.layers[i];
	enum push_layer_end end = PUSH_SENT;
	int r = reuse_original(&p->reuse, i, err);

	if (r > 0)
		end = r == 2 ? PUSH_MOUNTED : PUSH_PRESENT;
	else if (r == 0 && reuse_is_fit(&p->reuse, i))
		r = send_kept(&p->send, what, &l->blob, err);
	if (r > 0)
		settle(&p->layers[i], l->blob.digest, l->blob.size, l->compression, end);
	return r;
}

/* The blob of an earlier push, or a new one. */
static int push_packed(struct pushing *p, size_t i, const char *what, struct mlr_error *err)
{
	auto_call(store_cache_blob_done) struct store_cache_blob b = { 0 };
	enum push_layer_end end = PUSH_SENT;
	int r = reuse_packed(&p->reuse, i, &b, err);

	if (r > 0)
		end = r == 2 ? PUSH_MOUNTED : PUSH_PRESENT;
	else if (r == 0)
		r = send_layer(&p->send, what, p->doc.config.diff_ids.v[i], p->opt->compression,
			b.digest, &b.size, err);
	TRY(r);
	reuse_remember(&p->reuse, i, &b);
	settle(&p->layers[i], b.digest, b.size, p->opt->compression, end);
	return 0;
}

static void tell_layer(struct pushing *p, const struct pushed *l)
{
	const struct push_watch *w = &p->opt->watch;

	if (!w->layer)
		return;
	pthread_mutex_lock(&p->lock);
	w->layer(w->ctx, l->digest, l->size, l->end);
	pthread_mutex_unlock(&p->lock);
}

static int push_layer(struct pushing *p, size_t i, struct mlr_error *err)
{
	auto_free char *what = xasprintf("layer %zu of %zu", i + 1, p->doc.manifest.n_layers);
	int r = push_original(p, i, what, err);

	if (r == 0)
		r = push_packed(p, i, what, err);
	TRY(r);
	tell_layer(p, &p->layers[i]);
	return 0;
}

/* The first layer equal to layer i, or i itself: an image may have one layer twice. */
static size_t first_like(const struct pushing *p, size_t i)
{
	const struct strv *ids = &p->doc.config.diff_ids;
	size_t j = 0;

	while (strcmp(ids->v[j], ids->v[i]) != 0)
		j++;
	return j;
}

static void note_failure(struct pushing *p, int r, const struct mlr_error *err)
{
	/* A cancellation caused by another failure is not reported. */
	if (p->result == 0 || p->result == -ECANCELED) {
		p->result = r;
		p->err = *err;
	}
	__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
}

static void *thread_main(void *ctx)
{
	struct pushing *p = ctx;

	pthread_mutex_lock(&p->lock);
	while (p->next < p->doc.manifest.n_layers && !is_stopped(p)) {
		struct mlr_error err = MLR_ERROR_INIT;
		size_t i = p->next++;
		int r;

		if (first_like(p, i) < i)
			continue;
		pthread_mutex_unlock(&p->lock);
		r = push_layer(p, i, &err);
		pthread_mutex_lock(&p->lock);
		if (r < 0)
			note_failure(p, r, &err);
	}
	p->running--;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void tick(struct pushing *p)
{
	const struct push_watch *w = &p->opt->watch;

	if (p->opt->cancel && __atomic_load_n(p->opt->cancel, __ATOMIC_RELAXED))
		__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
	if (w->tick)
		w->tick(w->ctx, __atomic_load_n(&p->sent, __ATOMIC_RELAXED));
}

static int push_layers(struct pushing *p, struct mlr_error *err)
{
	size_t n = 0, want = (size_t)p->opt->jobs;
	int r = 0;

	if (want > p->doc.manifest.n_layers)
		want = p->doc.manifest.n_layers;
	p->running = want;
	while (n < want && r == 0) {
		r = pthread_create(&p->threads[n], NULL, thread_main, p);
		n += r == 0;
	}
	if (n == 0 && want > 0)
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	pthread_mutex_lock(&p->lock);
	p->running -= want - n;
	while (p->running > 0) {
		mlr_cond_wait_ms(&p->changed, &p->lock, TICK_MS);
		tick(p);
	}
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < n; i++)
		pthread_join(p->threads[i], NULL);
	for (size_t i = 0; i < p->doc.manifest.n_layers; i++)
		p->layers[i] = p->layers[first_like(p, i)];
	if (p->result == 0 && is_stopped(p))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (p->result < 0)
		*err = p->err;
	return p->result;
}

/* Are all layers there as the image was pulled? */
static int is_original(const struct pushing *p)
{
	for (size_t i = 0; i < p->doc.manifest.n_layers; i++)
		if (strcmp(p->layers[i].digest, p->doc.manifest.layers[i].blob.digest) != 0)
			return 0;
	return 1;
}

static char *write_manifest(const struct pushing *p)
{
	size_t n = p->doc.manifest.n_layers;
	struct oci_descriptor *layers = xcalloc(n + 1, sizeof(*layers));
	const struct oci_descriptor config = { p->doc.manifest.config.digest,
		(char *)"application/vnd.oci.image.config.v1+json", p->doc.config_len };
	char *ret;

	for (size_t i = 0; i < n; i++)
		layers[i] = (struct oci_descriptor){ p->layers[i].digest,
			(char *)oci_compression_type(p->layers[i].compression), p->layers[i].size };
	ret = oci_manifest_write(&config, layers, n, p->doc.manifest_text, p->doc.manifest_len);
	free(layers);
	return ret;
}

static int push_manifest(
	struct pushing *p, const struct oci_ref *to, struct push_result *ret, struct mlr_error *err)
{
	auto_free char *made = is_original(p) ? NULL : write_manifest(p);
	const char *text = made ? made : p->doc.manifest_text;
	size_t len = made ? strlen(made) : p->doc.manifest_len;

	hash_digest(text, len, ret->digest);
	ret->manifest_size = len;
	snprintf(ret->media_type, sizeof(ret->media_type), "%s",
		made ? "application/vnd.oci.image.manifest.v1+json" : p->doc.manifest.media_type);
	return registry_manifest_put(
		p->registry, to->tag ? to->tag : ret->digest, ret->media_type, text, len, err);
}

static void count(const struct pushing *p, struct push_result *ret)
{
	ret->layers = p->doc.manifest.n_layers;
	for (size_t i = 0; i < ret->layers; i++) {
		if (first_like(p, i) < i)
			continue;
		ret->mounted += p->layers[i].end == PUSH_MOUNTED;
		ret->sent += p->layers[i].end == PUSH_SENT;
		ret->bytes += p->layers[i].end == PUSH_SENT ? p->layers[i].size : 0;
	}
}

static void prepare(struct pushing *p, const struct oci_ref *to)
{
	struct registry_options options = p->opt->registry;

	options.cancelled = is_stopped;
	options.cancelled_ctx = p;
	p->registry = registry_new(to, &options);
	p->layers = xcalloc(p->doc.manifest.n_layers + 1, sizeof(*p->layers));
	p->send = (struct send){ p->st, p->registry, &p->stop, &p->sent };
	p->reuse.st = p->st;
	p->reuse.registry = p->registry;
	p->reuse.to = to;
	p->reuse.doc = &p->doc;
	p->reuse.compression = p->opt->compression;
	p->reuse.only = p->opt->only;
}

static int run(struct pushing *p, const struct store_image *im, const struct oci_ref *to,
	struct push_result *ret, struct mlr_error *err)
{
	TRY(documents_load(p->st, im->manifest, &p->doc, err));
	prepare(p, to);
	TRY(push_layers(p, err));
	TRY(send_document(&p->send, "configuration", p->doc.manifest.config.digest,
		p->doc.config_text, p->doc.config_len, err));
	TRY(push_manifest(p, to, ret, err));
	count(p, ret);
	return 0;
}

int push_held(struct store *st, const struct store_image *im, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err)
{
	auto_call(pushing_done) struct pushing p = { .st = st,
		.opt = opt,
		.reuse = { .lock = PTHREAD_MUTEX_INITIALIZER },
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER };
	auto_free char *name = oci_ref_canonical(to);

	memset(ret, 0, sizeof(*ret));
	return run(&p, im, to, ret, err) < 0 ? mlr_wrap(err, "push '%s' to '%s'", im->name, name)
					     : 0;
}

int push_image(struct store *st, const struct store_image *im, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err)
{
	int r = store_lease_take(st, im->manifest, err); /* so that rm leaves it alone */

	return r < 0 ? mlr_wrap(err, "push '%s'", im->name) : push_held(st, im, to, opt, ret, err);
}
