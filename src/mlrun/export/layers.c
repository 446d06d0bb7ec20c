#include "export/layers.h"

#include "base/machine.h"
#include "export/pack.h"
#include "oci/manifest.h"

/*
 * Packs layers in several threads and returns them in order: compressing is the slow part of an
 * export.
 */

#define THREADS_MAX 4
#define TICK_MS     100

struct packed {
	int is_done, result;
	struct pack pack;
	struct mlr_error err;
};

struct packer {
	struct store *st;
	const struct strv *diff_ids;
	enum oci_compression how;
	const int *cancel;
	pthread_t threads[THREADS_MAX];
	size_t n_threads;
	int stop;             /* atomic: stops the threads in their layers as well */
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t changed;
	size_t next, out;      /* the next to pack; the next to return */
	struct packed *layers; /* one for each diff ID */
};

/* The next layer to pack, or n if there is none; waits while enough packed layers wait. */
static size_t take_next(struct packer *p)
{
	size_t i;

	pthread_mutex_lock(&p->lock);
	while (!p->stop && p->next < p->diff_ids->n && p->next >= p->out + 2 * THREADS_MAX)
		pthread_cond_wait(&p->changed, &p->lock);
	i = p->stop || p->next == p->diff_ids->n ? p->diff_ids->n : p->next++;
	pthread_mutex_unlock(&p->lock);
	return i;
}

static void *thread_main(void *ctx)
{
	struct packer *p = ctx;
	size_t i;

	while ((i = take_next(p)) < p->diff_ids->n) {
		struct packed *l = &p->layers[i];
		struct pack pack = PACK_INIT;
		int r = pack_layer(
			p->st, p->diff_ids->v[i], p->how, &p->stop, NULL, &pack, &l->err);

		pthread_mutex_lock(&p->lock);
		l->pack = pack;
		l->result = r;
		l->is_done = 1;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static size_t count_threads(size_t layers)
{
	size_t n = processors_count();

	if (n > THREADS_MAX)
		n = THREADS_MAX;
	return n < layers ? n : layers;
}

/* Stop what is in progress. NULL is fine. */
static void packer_free(struct packer **at)
{
	struct packer *p = *at;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	for (size_t i = 0; i < p->diff_ids->n; i++)
		pack_done(&p->layers[i].pack);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p->layers);
	free(p);
}

/* Start with these layers; diff_ids and cancel stay the caller's and outlive the packer. At most
 * twice as many packed layers wait as there are threads. Returns 0, or -EAGAIN if no thread can be
 * started. */
static int packer_new(struct store *st, const struct strv *diff_ids, enum oci_compression how,
	const int *cancel, struct packer **ret, struct mlr_error *err)
{
	struct packer *p = xcalloc(1, sizeof(*p));
	size_t want = count_threads(diff_ids->n);
	int r = 0;

	*p = (struct packer){ .st = st, .diff_ids = diff_ids, .how = how, .cancel = cancel };
	p->layers = xcalloc(diff_ids->n + 1, sizeof(*p->layers));
	for (size_t i = 0; i < diff_ids->n; i++)
		p->layers[i].pack = (struct pack)PACK_INIT;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	while (p->n_threads < want && r == 0) {
		r = pthread_create(&p->threads[p->n_threads], NULL, thread_main, p);
		p->n_threads += r == 0;
	}
	if (p->n_threads == 0 && want > 0) {
		packer_free(&p);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	*ret = p;
	return 0;
}

static int is_cancelled(const struct packer *p)
{
	return p->cancel && __atomic_load_n(p->cancel, __ATOMIC_RELAXED);
}

/* Get the next layer, as from pack_layer(). */
static int packer_next(struct packer *p, struct pack *ret, struct mlr_error *err)
{
	struct packed *l = &p->layers[p->out];

	pthread_mutex_lock(&p->lock);
	while (!l->is_done && !is_cancelled(p))
		mlr_cond_wait_ms(&p->changed, &p->lock, TICK_MS);
	p->out++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);

	if (is_cancelled(p))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (l->result < 0) {
		if (err)
			*err = l->err;
		return l->result;
	}
	*ret = l->pack;
	l->pack = (struct pack)PACK_INIT;
	return 0;
}

static int put_blob(
	struct work *w, const char *digest, const void *buf, size_t len, struct mlr_error *err)
{
	auto_free char *name = xasprintf("blobs/sha256/%s", oci_digest_hex(digest));

	return outlet_put(w->out, name, buf, len, err);
}

static int put_layer(
	struct work *w, struct pack *p, struct oci_descriptor *ret, struct mlr_error *err)
{
	auto_free char *name = xasprintf("blobs/sha256/%s", oci_digest_hex(p->digest));
	int r = outlet_put_fd(w->out, name, p->fd, p->size, err);

	ret->digest = xstrdup(p->digest);
	ret->media_type = xstrdup(oci_compression_type(w->opt->compression));
	ret->size = p->size;
	return r;
}

/* The first layer equal to layer i, or i itself. An image may have one layer twice. */
static size_t first_like(const struct work *w, size_t i)
{
	const struct strv *ids = &w->doc.config.diff_ids;
	size_t j = 0;

	while (j < i &&
		(strcmp(ids->v[j], ids->v[i]) != 0 ||
			(w->opt->keep_blobs &&
				strcmp(w->doc.manifest.layers[j].blob.digest,
					w->doc.manifest.layers[i].blob.digest) != 0)))
		j++;
	return j;
}

/* The diff IDs, each once. */
static void list_unique(const struct work *w, struct strv *ret)
{
	for (size_t i = 0; i < w->doc.config.diff_ids.n; i++)
		if (first_like(w, i) == i)
			strv_add(ret, w->doc.config.diff_ids.v[i]);
}

static int put_layers(struct work *w, struct oci_descriptor *d, struct mlr_error *err)
{
	auto_strv struct strv unique = STRV_INIT;
	auto_call(packer_free) struct packer *packer = NULL;
	int r = 0;

	list_unique(w, &unique);
	if (!w->opt->keep_blobs)
		r = packer_new(w->st, &unique, w->opt->compression, w->opt->cancel, &packer, err);
	for (size_t i = 0; r == 0 && i < w->doc.config.diff_ids.n; i++) {
		auto_call(pack_done) struct pack p = PACK_INIT;
		size_t same = first_like(w, i);

		if (same < i) {
			d[i] = (struct oci_descriptor){ xstrdup(d[same].digest),
				xstrdup(d[same].media_type), d[same].size };
			continue;
		}
		r = packer ? packer_next(packer, &p, err)
			   : pack_kept(w->st, &w->doc.manifest.layers[i].blob, &p, err);
		if (r == 0)
			r = put_layer(w, &p, &d[i], err);
	}
	return r;
}

/* Write the original manifest, or one of the new layers. */
static int put_manifest(struct work *w, const struct oci_descriptor *layers,
	struct oci_descriptor *ret, struct mlr_error *err)
{
	struct oci_descriptor config = { w->doc.manifest.config.digest,
		(char *)"application/vnd.oci.image.config.v1+json", w->doc.config_len };
	auto_free char *made = NULL;
	const char *text = w->doc.manifest_text;
	size_t len = w->doc.manifest_len;
	char digest[OCI_DIGEST_SIZE];

	if (!w->opt->keep_blobs) {
		text = made = oci_manifest_write(&config, layers, w->doc.config.diff_ids.n,
			w->doc.manifest_text, w->doc.manifest_len);
		len = strlen(made);
	}
	hash_digest(text, len, digest);
	ret->digest = xstrdup(digest);
	ret->size = len;
	ret->media_type =
		xstrdup(w->opt->keep_blobs ? w->doc.manifest.media_type
					   : "application/vnd.oci.image.manifest.v1+json");
	return put_blob(w, digest, text, len, err);
}

static void descriptor_done(struct oci_descriptor *d)
{
	free(d->digest);
	free(d->media_type);
}

static int write_layout(struct work *w, const struct oci_descriptor *layers,
	struct export_result *ret, struct mlr_error *err)
{
	auto_call(descriptor_done) struct oci_descriptor manifest = { 0 };
	auto_free char *index = NULL;

	TRY(put_blob(w, w->doc.manifest.config.digest, w->doc.config_text, w->doc.config_len, err));
	TRY(put_manifest(w, layers, &manifest, err));
	TRY(outlet_put(w->out, "oci-layout", OCI_LAYOUT_FILE, strlen(OCI_LAYOUT_FILE), err));
	index = oci_index_write(
		&(struct oci_index_item){ manifest, w->image->platform, w->name }, 1);
	memcpy(ret->digest, manifest.digest, OCI_DIGEST_SIZE);
	memcpy(ret->config, w->doc.manifest.config.digest, OCI_DIGEST_SIZE);
	ret->layers = w->doc.config.diff_ids.n;
	return outlet_put(w->out, "index.json", index, strlen(index), err);
}

int layers_write_oci(struct work *w, struct export_result *ret, struct mlr_error *err)
{
	size_t n = w->doc.config.diff_ids.n;
	struct oci_descriptor *layers = xcalloc(n + 1, sizeof(*layers));
	int r = put_layers(w, layers, err);

	if (r == 0)
		r = write_layout(w, layers, ret, err);
	for (size_t i = 0; i < n; i++)
		descriptor_done(&layers[i]);
	free(layers);
	return r;
}

static int put_docker_layer(struct work *w, size_t i, const char *name, struct mlr_error *err)
{
	auto_call(pack_done) struct pack p = PACK_INIT;

	TRY(pack_layer(
		w->st, w->doc.config.diff_ids.v[i], OCI_PLAIN, w->opt->cancel, NULL, &p, err));
	return outlet_put_fd(w->out, name, p.fd, p.size, err);
}

int layers_write_docker(struct work *w, struct export_result *ret, struct mlr_error *err)
{
	auto_free char *config =
			       xasprintf("%s.json", oci_digest_hex(w->doc.manifest.config.digest)),
		       *list = NULL;
	auto_strv struct strv layers = STRV_INIT;
	int r = outlet_put(w->out, config, w->doc.config_text, w->doc.config_len, err);

	for (size_t i = 0; r == 0 && i < w->doc.config.diff_ids.n; i++) {
		strv_addf(&layers, "%s.tar", oci_digest_hex(w->doc.config.diff_ids.v[i]));
		if (first_like(w, i) == i)
			r = put_docker_layer(w, i, layers.v[i], err);
	}
	if (r < 0)
		return r;
	list = oci_save_write(config, w->name, &layers);
	memcpy(ret->config, w->doc.manifest.config.digest, OCI_DIGEST_SIZE);
	ret->layers = layers.n;
	return outlet_put(w->out, "manifest.json", list, strlen(list), err);
}
