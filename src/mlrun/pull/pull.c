#include "pull/pull.h"

#include "pull/crew.h"
#include "pull/layer.h"
#include "pull/space.h"
#include "pull/squash.h"
#include "rootfs/image.h"
#include "store/facts.h"
#include "store/blob.h"
#include "store/stores.h"
#include "store/tree.h"
#include "oci/ref.h"
#include "oci/manifest.h"

/* --- what the store has already --- */

struct stored_want {
	const struct oci_ref *ref;
	const char *name; /* the canonical name */
	const struct oci_platform *platform;
	unsigned format; /* an enum store_format; 0: any */
	int blobs;       /* the compressed layers, too */
};

static int has_blobs(struct store *st, const struct oci_document *manifest)
{
	size_t i = 0;

	while (i < manifest->n_layers &&
		store_blob_is_kept(
			st, manifest->layers[i].blob.digest, manifest->layers[i].blob.size))
		i++;
	return i == manifest->n_layers;
}

/* Are manifest and configuration readable, with correct digests? For the layers' blobs only their
 * existence is checked. */
static int has_documents(struct store *st, const struct store_image *im, int blobs)
{
	auto_call(oci_document_done) struct oci_document manifest = { 0 };
	auto_free char *text = NULL, *config = NULL, *index = NULL;
	size_t len;

	if (im->index && store_blob_get(st, im->index, &index, NULL, NULL) < 0)
		return 0;
	return store_blob_get(st, im->manifest, &text, &len, NULL) == 0 &&
		oci_document_parse(text, len, NULL, NULL, &manifest, NULL) == 0 &&
		store_blob_get(st, manifest.config.digest, &config, NULL, NULL) == 0 &&
		(!blobs || has_blobs(st, &manifest));
}

/* Does the store have an image in a format, or in one that replaces it? If an overlay would show
 * the layers wrongly, one tree replaces them. */
static int has_format(
	struct store *st, const char *manifest, const struct store_facts *f, unsigned format)
{
	unsigned serving = format ? format : ~0u;

	if (format == STORE_FORMAT_LAYERS)
		serving |= STORE_FORMAT_DIR;
	for (unsigned bit = 1; bit < 1u << STORE_FORMATS; bit <<= 1)
		if ((f->formats & serving & bit) &&
			store_facts_whole(st, manifest, f, (enum store_format)bit, NULL))
			return 1;
	return 0;
}

/* Do the documents, the facts and the format's parts still exist? */
static int is_whole(struct store *st, const struct store_image *im, const struct stored_want *want,
	unsigned *formats)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };

	if (!has_documents(st, im, want->blobs) || store_facts_get(st, im->manifest, &f, NULL) < 0)
		return 0;
	*formats = f.formats;
	return has_format(st, im->manifest, &f, want->format);
}

/*
 * Returns 1 if the store has an image under exactly this name, for the platform, with its
 * documents, its facts and the format's parts; else 0.
 *
 *   formats  the formats that the store has it in
 */
static int stored_find(struct store *st, const struct stored_want *want, struct store_image *ret,
	unsigned *formats)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	struct oci_platform have;

	if (store_image_find(st, want->ref, &im, NULL) < 0 || strcmp(im.name, want->name) != 0)
		return 0;
	if (oci_platform_parse(im.platform, &have, NULL) < 0 ||
		!oci_platform_match(want->platform, &have) || !is_whole(st, &im, want, formats))
		return 0;
	*ret = take_struct(&im, { 0 });
	return 1;
}

/* --- the pull --- */

/* A call of pull_image(). */
struct pull {
	struct store *st;
	const struct oci_name *what;
	const struct pull_options *opt;
	const struct pull_watch *watch;
	struct oci_ref ref; /* its name in the store */
	char *name;         /* the same, canonical */
	char *told;         /* its name in messages */
	struct oci_platform want;
	struct plain_options plain;
	struct source_files_options files;
	struct pull_source *source;
	struct resolved res;
	struct pull_layer *shown;
	enum store_format format; /* to make */
	struct store_facts had;   /* the image's so far; empty if it is new */
	char squash_digest[8 + HASH_HEX_SIZE];
	int stop; /* atomic: a layer failed, or the user cancelled */
};

void pull_result_done(struct pull_result *r)
{
	store_image_done(&r->image);
	free(r->store);
	free(r->replaced);
	*r = (struct pull_result){ 0 };
}

static void pull_done(struct pull *p)
{
	pull_source_free(p->source);
	resolve_done(&p->res);
	store_facts_done(&p->had);
	oci_ref_done(&p->ref);
	free(p->shown);
	free(p->name);
	free(p->told);
	fd_close(&p->plain.tmp_fd);
}

static int is_cancelled(void *ctx)
{
	struct pull *p = ctx;

	return __atomic_load_n(&p->stop, __ATOMIC_RELAXED) ||
		(p->opt->cancel && __atomic_load_n(p->opt->cancel, __ATOMIC_RELAXED));
}

static int open_registry(struct pull *p, struct mlr_error *err)
{
	struct registry_options o = p->opt->registry;

	o.cancelled = is_cancelled;
	o.cancelled_ctx = p;
	o.notice = p->watch->notice;
	o.notice_ctx = p->watch->ctx;
	return pull_source_registry(&p->what->ref, &o, &p->source, err);
}

/* Decompress into the store's file system, the one place where room is expected. */
static int open_files(struct pull *p, struct mlr_error *err)
{
	p->plain.cancelled = is_cancelled;
	p->plain.cancelled_ctx = p;
	if (p->st)
		p->plain.tmp_fd =
			openat(store_fd(p->st), "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->files = (struct source_files_options){ &p->want, &p->plain };
	return pull_source_files(p->what, &p->files, &p->source, &p->ref, err);
}

/* Open the source and choose the name. */
static int open_source(struct pull *p, struct mlr_error *err)
{
	TRY(p->what->transport == OCI_REGISTRY ? open_registry(p, err) : open_files(p, err));
	if (p->opt->as) {
		oci_ref_done(&p->ref);
		oci_ref_copy(p->opt->as, &p->ref);
	} else if (p->what->transport == OCI_REGISTRY) {
		oci_ref_copy(&p->what->ref, &p->ref);
	}
	/* From here on the name means that image only, not a local one with the same short name. */
	free(take_ptr(&p->ref.short_name));
	p->name = oci_ref_canonical(&p->ref);
	p->source = pull_source_spool(p->st, p->source,
		p->opt->spool_from ? p->opt->spool_from : PULL_SPOOL_FROM, p->opt->keep_blobs);
	return 0;
}

/* Update the source if the same image came from another file this time. */
static int note_source(struct pull *p, struct store_image *im, struct mlr_error *err)
{
	auto_free char *source = store_image_source(p->what);

	if (!source || (im->source && strcmp(source, im->source) == 0))
		return 0;
	set_ptr(&im->source, take_ptr(&source));
	return store_image_put(p->st, im, err);
}

/* Returns 1 if a store has what the reference means now, else 0 or -errno. */
static int is_up_to_date(
	struct pull *p, struct store *st, struct pull_result *ret, struct mlr_error *err)
{
	const struct stored_want want = { &p->ref, p->name, &p->want, p->opt->format,
		p->opt->keep_blobs };
	auto_call(store_image_done) struct store_image im = { 0 };
	char digest[OCI_DIGEST_SIZE];

	if (!stored_find(st, &want, &im, &ret->formats))
		return 0;
	TRY(p->source->ops->head(p->source, digest, err));
	if (strcmp(digest, im.index ? im.index : im.manifest) != 0)
		return 0;
	ret->image = im;
	ret->up_to_date = 1;
	im = (struct store_image){ 0 };
	return 1;
}

/* The same for the user's own store; notes where the image came from. */
static int is_kept_here(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	int r = is_up_to_date(p, p->st, ret, err), noted;

	if (r != 1)
		return r;
	noted = note_source(p, &ret->image, err);
	return noted < 0 ? noted : 1;
}

/* The same for a shared store. Layers of other images are not borrowed from there
 * (store/stores.h). */
static int is_kept_elsewhere(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	auto_call(stores_close) struct stores others = { 0 };
	int r = stores_open_additional(p->st, &others, err);

	for (size_t i = 0; r == 0 && i < others.n; i++) {
		r = is_up_to_date(p, others.v[i], ret, err);
		if (r == 1)
			ret->store = xstrdup(store_path(others.v[i]));
	}
	return r;
}

/* Protect from removal what we find or bring, and nothing else in the store. */
static int hold_parts(struct pull *p, struct mlr_error *err)
{
	const struct resolved *res = &p->res;
	auto_strv struct strv digests = STRV_INIT;

	strv_add_words(&digests, res->manifest.digest, res->layers.config.digest);
	if (res->index.data)
		strv_add(&digests, res->index.digest);
	for (size_t i = 0; i < res->layers.n_layers; i++) {
		strv_add(&digests, res->config.diff_ids.v[i]);
		strv_add(&digests, res->layers.layers[i].blob.digest);
	}
	return store_hold_only(p->st, &digests, err);
}

/* Does the store have the compressed layer, if it is to be kept? */
static int has_blob(const struct pull *p, size_t i)
{
	const struct oci_descriptor *blob = &p->res.layers.layers[i].blob;

	return !p->opt->keep_blobs || store_blob_is_kept(p->st, blob->digest, blob->size);
}

/* Need not be fetched? A squashfs file reads layers in the store from there. */
static int is_here(const struct pull *p, size_t i)
{
	return p->format != STORE_FORMAT_SQUASHFS && has_blob(p, i) &&
		store_tree_exists(p->st, STORE_LAYER, p->res.config.diff_ids.v[i]);
}

static void show_layers(struct pull *p)
{
	const struct oci_document *m = &p->res.layers;

	p->shown = xcalloc(m->n_layers, sizeof(*p->shown));
	for (size_t i = 0; i < m->n_layers; i++) {
		struct pull_layer *l = &p->shown[i];

		l->digest = m->layers[i].blob.digest;
		l->size = m->layers[i].blob.size;
		l->state = is_here(p, i) ? PULL_PRESENT : PULL_WAITING;
	}
	if (p->watch->begin)
		p->watch->begin(p->watch->ctx, p->name, p->shown, m->n_layers);
}

/* Unpacked layers are larger than compressed ones: refuse if not even those fit. */
static int check_space(struct pull *p, struct mlr_error *err)
{
	int files = p->format != STORE_FORMAT_SQUASHFS;
	uint64_t need = 0;

	for (size_t i = 0; i < p->res.layers.n_layers; i++)
		if (p->shown[i].state == PULL_WAITING)
			need += p->shown[i].size;
	return space_check(p->st, need, (files ? 3 : 2) + (p->opt->keep_blobs != 0), files,
		p->watch->notice, p->watch->ctx, err);
}

static int bring_squash(struct pull *p, struct mlr_error *err)
{
	struct squash_work w = { .st = p->st,
		.source = p->source,
		.layers = p->res.layers.layers,
		.diff_ids = p->res.config.diff_ids.v,
		.shown = p->shown,
		.n = p->res.layers.n_layers,
		.manifest = p->res.manifest.digest,
		.created = p->res.config.created,
		.stop = &p->stop };
	int r = squash_bring(&w, p->watch, p->opt->cancel, p->squash_digest, err);

	/* Keep the digest from when the file was made: later damage must not become part of it. */
	if (r == 1 && p->had.squash_digest)
		snprintf(p->squash_digest, sizeof(p->squash_digest), "%s", p->had.squash_digest);
	/* A file that already existed has brought no blobs. */
	for (size_t i = 0; r >= 0 && i < w.n; i++)
		if (!has_blob(p, i))
			p->shown[i].state = PULL_WAITING;
	return r < 0 ? r : 0;
}

static int bring_layers(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	struct crew_work w = { .st = p->st,
		.source = p->source,
		.layers = p->res.layers.layers,
		.diff_ids = p->res.config.diff_ids.v,
		.shown = p->shown,
		.n = p->res.layers.n_layers,
		.parts = (p->format == STORE_FORMAT_SQUASHFS ? 0 : LAYER_TREE) |
			(p->opt->keep_blobs ? LAYER_BLOB : 0),
		.stop = &p->stop };
	int r = check_space(p, err);

	if (r == 0 && p->format == STORE_FORMAT_SQUASHFS)
		r = bring_squash(p, err);
	if (r == 0 && w.parts)
		r = crew_run(&w, p->opt->jobs, p->watch, p->opt->cancel, err);
	TRY(r);
	ret->layers = w.n;
	for (size_t i = 0; i < w.n; i++) {
		ret->layers_fetched += p->shown[i].state == PULL_DONE;
		ret->bytes_fetched += p->shown[i].state == PULL_DONE ? p->shown[i].size : 0;
	}
	return 0;
}

static int keep_documents(struct pull *p, struct mlr_error *err)
{
	const struct resolved *res = &p->res;

	TRY(store_blob_put(
		p->st, res->manifest.digest, res->manifest.data, res->manifest.len, err));
	if (res->index.data)
		TRY(store_blob_put(p->st, res->index.digest, res->index.data, res->index.len, err));
	return store_blob_put(
		p->st, res->layers.config.digest, res->config_json, res->layers.config.size, err);
}

/* Record what exec will read: the new format, and those that the store had before. */
static int keep_facts(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	const char *manifest = p->res.manifest.digest;
	/* f.config only borrows p's configuration. */
	struct store_facts f = { .config = p->res.config,
		.covered = p->had.covered,
		.squash_digest = p->had.squash_digest };
	auto_strv struct strv open = STRV_INIT;
	int r = 0;

	for (unsigned bit = 1; bit < 1u << STORE_FORMATS; bit <<= 1)
		if ((p->had.formats & bit) &&
			store_facts_whole(p->st, manifest, &p->had, (enum store_format)bit, NULL))
			f.formats |= bit;
	if (p->format == STORE_FORMAT_SQUASHFS) {
		f.formats |= STORE_FORMAT_SQUASHFS;
		f.squash_digest = p->squash_digest;
		f.open = p->had.open;
	} else {
		r = rootfs_image_stack(p->st, manifest, p->format == STORE_FORMAT_DIR, &f, err);
		open = f.open;
	}
	TRY(r);
	ret->formats = f.formats;
	return store_facts_put(p->st, manifest, &f, err);
}

static int keep_name(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	struct store_image *im = &ret->image;

	im->name = xstrdup(p->name);
	im->manifest = xstrdup(p->res.manifest.digest);
	im->index = p->res.index.data ? xstrdup(p->res.index.digest) : NULL;
	im->platform = xstrdup(p->res.platform);
	im->source = store_image_source(p->what);
	im->size = p->res.layers.size;
	im->pulled = time(NULL);
	/* For a registry's tag, moving to another image is normal. */
	if (p->what->transport != OCI_REGISTRY)
		ret->replaced = store_image_other(p->st, im);
	return store_image_put(p->st, im, err);
}

static int parse_platform(struct pull *p, struct mlr_error *err)
{
	if (p->opt->platform)
		return oci_platform_parse(p->opt->platform, &p->want, err);
	oci_platform_host(&p->want);
	return 0;
}

/* Find out what to make and what exists already. */
static int choose_format(struct pull *p, struct mlr_error *err)
{
	auto_free char *told = NULL;
	int r = 0;

	if (store_facts_get(p->st, p->res.manifest.digest, &p->had, NULL) < 0)
		p->had = (struct store_facts){ 0 };
	if (p->opt->format)
		p->format = (enum store_format)p->opt->format;
	else
		r = format_choose(p->st, p->opt->probe, &p->format, &told, err);
	if (told && p->watch->notice)
		p->watch->notice(p->watch->ctx, told);
	return r;
}

static int run(struct pull *p, struct pull_result *ret, struct mlr_error *err)
{
	int r;

	TRY(parse_platform(p, err));
	TRY(open_source(p, err));
	r = is_kept_here(p, ret, err);
	if (r == 0)
		r = is_kept_elsewhere(p, ret, err);
	if (r != 0)
		return r < 0 ? r : 0;
	TRY(resolve(p->source, &p->want, &p->res, err));
	TRY(hold_parts(p, err));

	TRY(choose_format(p, err));
	show_layers(p);
	TRY(bring_layers(p, ret, err));
	TRY(keep_documents(p, err));
	TRY(keep_facts(p, ret, err));
	return keep_name(p, ret, err);
}

/* Say which place is full, with a hint. */
static void tell_full(const struct pull *p, struct mlr_error *err)
{
	mlr_wrap(err, "no room in store '%s'", store_path(p->st));
	mlr_hint(err,
		"mlrun prune or mlrun rm frees space; --store or MLRUN_STORE names another place");
}

int pull_image(struct store *st, const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_result *ret, struct mlr_error *err)
{
	auto_call(pull_done) struct pull p = { .st = st,
		.what = what,
		.opt = opt,
		.watch = watch,
		.told = oci_name_print(what),
		.plain = { .tmp_fd = -1 } };
	auto_call(pull_result_done) struct pull_result result = { 0 };
	int r;

	store_set_cancelled(st, is_cancelled, &p);
	r = run(&p, &result, err);
	store_set_cancelled(st, NULL, NULL);
	if (r < 0) {
		if (store_hold_check(st, err) < 0)
			r = -ESTALE;
		if ((r == -ENOSPC || r == -EDQUOT) && err)
			tell_full(&p, err);
		mlr_wrap(err, "%s '%s'", what->transport == OCI_ANY_FILE ? "import" : "pull",
			p.told);
		return r;
	}
	/* Sweep after work; if there was none, an unchanged image costs one request and a look. */
	if (!result.up_to_date || store_has_work(st))
		store_sweep(st);
	*ret = take_struct(&result, { 0 });
	return 0;
}

void pull_sight_done(struct pull_sight *s)
{
	free(s->name);
	free(s->source);
	resolve_done(&s->res);
	*s = (struct pull_sight){ 0 };
}

int pull_look(const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_sight *ret, struct mlr_error *err)
{
	auto_call(pull_done) struct pull p = { .what = what,
		.opt = opt,
		.watch = watch,
		.told = oci_name_print(what),
		.plain = { .tmp_fd = -1 } };
	int r = parse_platform(&p, err);

	if (r == 0)
		r = open_source(&p, err);
	if (r == 0)
		r = resolve(p.source, &p.want, &p.res, err);
	if (r < 0) {
		mlr_wrap(err, "inspect '%s'", p.told);
		return r;
	}
	ret->name = take_ptr(&p.name);
	ret->source = store_image_source(what);
	ret->res = p.res;
	p.res = (struct resolved){ 0 };
	return 0;
}
