#include "build/state.h"

#include "oci/compression.h"
#include "oci/platform.h"
#include "rootfs/fill.h"
#include "rootfs/flatten.h"
#include "rootfs/image.h"
#include "rootfs/merge.h"
#include "rootfs/rootfs.h"
#include "store/blob.h"
#include "store/cache.h"
#include "store/tree.h"

#include <jansson.h>

static void free_layers(struct state *s)
{
	for (size_t i = 0; i < s->n_layers; i++) {
		free(s->layers[i].blob.digest);
		free(s->layers[i].blob.media_type);
	}
	free(s->layers);
	s->layers = NULL;
	s->n_layers = 0;
}

static void forget_image(struct state *s)
{
	free(take_ptr(&s->manifest));
	free(take_ptr(&s->tree));
}

void state_done(struct state *s)
{
	free_layers(s);
	forget_image(s);
	free(s->config);
	oci_config_done(&s->parsed);
	scope_done(&s->scope);
	*s = (struct state)STATE_INIT;
}

void state_mix(struct state *s, ...)
{
	auto_hash struct hash *h = hash_new();
	const char *word;
	va_list ap;

	hash_update(h, s->key, strlen(s->key) + 1);
	va_start(ap, s);
	while ((word = va_arg(ap, const char *)))
		hash_update(h, word, strlen(word) + 1);
	va_end(ap);
	hash_final(h, s->key);
}

static int has_path(const struct strv *env)
{
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], "PATH=", 5) == 0)
			return 1;
	return 0;
}

/* A stage always has a PATH to build upon, as BuildKit's have. Returns the document with it. */
static char *add_path(const char *config)
{
	json_auto_t *o = json_loads(config, 0, NULL);
	json_t *run = json_object_get(o, "config"), *env;

	if (!json_is_object(run))
		json_object_set_new(o, "config", run = json_object());
	env = json_object_get(run, "Env");
	if (!json_is_array(env))
		json_object_set_new(run, "Env", env = json_array());
	json_array_append_new(env, json_string("PATH=" OCI_DEFAULT_PATH));
	return json_dumps(o, JSON_COMPACT);
}

/* Take a new document; the scope sees its variables. Steals it. */
static int set_config(struct state *s, char *config, struct mlr_error *err)
{
	struct oci_config parsed = { 0 };
	int r = oci_config_parse(config, strlen(config), &parsed, err);

	if (r < 0) {
		free(config);
		return r;
	}
	if (!has_path(&parsed.env)) {
		auto_free char *old = config;

		oci_config_done(&parsed);
		return set_config(s, add_path(old), err);
	}
	free(s->config);
	oci_config_done(&s->parsed);
	s->config = config;
	s->parsed = parsed;
	strv_done(&s->scope.env);
	strv_add_all(&s->scope.env, &parsed.env);
	forget_image(s);
	return 0;
}

int state_scratch(struct state *s, const char *platform, struct mlr_error *err)
{
	struct oci_platform p;
	json_auto_t *o = NULL;

	TRY(oci_platform_parse(platform, &p, err));
	o = json_pack("{s:s, s:s, s:{}, s:{s:s, s:[]}}", "architecture", p.arch, "os", p.os,
		"config", "rootfs", "type", "layers", "diff_ids");
	if (*p.variant)
		json_object_set_new(o, "variant", json_string(p.variant));
	state_mix(s, "scratch", NULL);
	return set_config(s, json_dumps(o, JSON_COMPACT), err);
}

static void add_layer(struct state *s, const struct oci_layer *l)
{
	*xadd(s->layers, s->n_layers) = (struct oci_layer){
		{ xstrdup(l->blob.digest), xstrdup(l->blob.media_type), l->blob.size },
		l->compression
	};
}

static int bring_layers(
	struct store *st, struct store *from, const struct strv *ids, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; i < ids->n && r == 0; i++) {
		if (!store_tree_exists(from, STORE_LAYER, ids->v[i]))
			return mlr_fail(err, ENOENT, "store '%s' lacks its layer %s",
				store_path(from), ids->v[i]);
		r = from == st ? 0 : rootfs_fill_from(st, from, ids->v[i], err);
	}
	return r;
}

int state_from_image(struct state *s, struct store *st, struct store *from,
	const struct store_image *im, struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document d = { 0 };
	auto_free char *text = NULL;
	char *config;
	size_t len;

	TRY(store_blob_get(from, im->manifest, &text, &len, err));
	TRY(oci_document_parse(text, len, NULL, NULL, &d, err));
	TRY(store_blob_get(from, d.config.digest, &config, &len, err));
	TRY(set_config(s, config, err));
	if (d.n_layers != s->parsed.diff_ids.n)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			d.n_layers, s->parsed.diff_ids.n);
	for (size_t i = 0; i < d.n_layers; i++)
		add_layer(s, &d.layers[i]);
	s->n_base = s->n_layers;
	for (size_t i = 0; i < s->parsed.diff_ids.n; i++)
		state_mix(s, s->parsed.diff_ids.v[i], NULL);
	if (s->parsed.created)
		snprintf(s->created, sizeof(s->created), "%s", s->parsed.created);
	return bring_layers(st, from, &s->parsed.diff_ids, err);
}

void state_from_stage(struct state *s, const struct state *parent)
{
	scope_inherit(&s->scope, &parent->scope);
	(void)set_config(s, xstrdup(parent->config), NULL);
	for (size_t i = 0; i < parent->n_layers; i++)
		add_layer(s, &parent->layers[i]);
	s->n_base = parent->n_base;
	memcpy(s->key, parent->key, sizeof(s->key));
	memcpy(s->created, parent->created, sizeof(s->created));
}

int state_derive(struct state *s, struct derive *d, uint64_t size, struct mlr_error *err)
{
	char *config;
	int r;

	d->created = s->created;
	r = derive_config(s->config, strlen(s->config), d, &config, err);

	if (r == 0)
		r = set_config(s, config, err);
	if (r < 0 || !d->diff_id)
		return r;
	add_layer(s,
		&(struct oci_layer){
			{ (char *)d->diff_id, (char *)oci_compression_type(OCI_PLAIN), size },
			OCI_PLAIN });
	return 0;
}

static int put(struct state *s, struct store *st, int one_tree, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	const struct rootfs_image image = {
		.config = s->config, .layers = s->layers, .n = s->n_layers, .one_tree = one_tree
	};
	int r = rootfs_image_put(st, NULL, &image, &im, err);

	if (r == 0)
		set_ptr(&s->manifest, take_ptr(&im.manifest));
	return r;
}

int state_image(struct state *s, struct store *st, struct mlr_error *err)
{
	return s->manifest ? 0 : put(s, st, 0, err);
}

int state_plan(struct state *s, struct store *st, struct plan *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	int r = s->n_layers == 0 ? 0 : state_image(s, st, err);

	if (r < 0 || s->n_layers == 0)
		return r;
	ret->image = xstrdup(s->manifest);
	return rootfs_plan_stored(st, s->manifest, 0, ret, &f, err);
}

int state_tree(struct state *s, struct store *st, struct mlr_error *err)
{
	auto_free char *rel = NULL;
	int r = s->tree ? 0 : state_image(s, st, err);

	if (r == 0 && !s->tree)
		r = rootfs_flatten(st, s->manifest, &s->parsed.diff_ids, err);
	if (r < 0 || s->tree)
		return r;
	rel = store_tree_relpath(STORE_DIR, s->manifest);
	s->tree = xasprintf("%s/%s", store_path(st), rel);
	return 0;
}

/* --- one layer ------------------------------------------------------------------ */

/* Mark the last n history entries as empty and append one for the merged layer. */
static char *squashed_config(const struct state *s, const char *diff_id)
{
	json_auto_t *o = json_loads(s->config, 0, NULL);
	json_t *ids = json_object_get(json_object_get(o, "rootfs"), "diff_ids");
	json_t *history = json_object_get(o, "history"), *line;
	size_t left = s->n_layers - s->n_base;

	while (json_array_size(ids) > s->n_base)
		json_array_remove(ids, s->n_base);
	json_array_append_new(ids, json_string(diff_id));
	for (size_t i = json_array_size(history); i-- > 0 && left > 0;) {
		line = json_array_get(history, i);
		if (!json_is_object(line) || json_is_true(json_object_get(line, "empty_layer")))
			continue;
		json_object_set_new(line, "empty_layer", json_true());
		left--;
	}
	json_array_append_new(history,
		json_pack("{s:s, s:s, s:s}", "created", s->created, "created_by",
			"mlrun build --squash", "comment", "mlrun build"));
	return json_dumps(o, JSON_COMPACT);
}

static void key_of_squashed(const struct state *s, char key[OCI_DIGEST_SIZE])
{
	auto_free char *ids = strv_join(&s->parsed.diff_ids, s->parsed.diff_ids.n, " ");
	auto_free char *text = xasprintf("squash %zu %s", s->n_base, ids);

	hash_digest(text, strlen(text), key);
}

int state_squash(
	struct state *s, struct store *st, int is_cached, const int *cancel, struct mlr_error *err)
{
	struct store_cached step = { .created = 0 };
	char key[OCI_DIGEST_SIZE];
	struct oci_layer layer;
	char *config;
	int r = 0;

	if (s->n_layers < s->n_base + 2)
		return 0;
	key_of_squashed(s, key);
	if (!is_cached || store_cache_get(st, key, &step) < 0) {
		r = rootfs_merge(st, s->parsed.diff_ids.v + s->n_base, s->n_layers - s->n_base,
			cancel, step.diff_id, &step.size, err);
		if (r == 0)
			r = store_cache_put(st, key, &step, err);
	}
	TRY(r);
	config = squashed_config(s, step.diff_id);
	while (s->n_layers > s->n_base) {
		free(s->layers[--s->n_layers].blob.digest);
		free(s->layers[s->n_layers].blob.media_type);
	}
	layer = (struct oci_layer){
		{ step.diff_id, (char *)oci_compression_type(OCI_PLAIN), step.size }, OCI_PLAIN
	};
	add_layer(s, &layer);
	return set_config(s, config, err);
}
