#include "store/image.h"

#include "base/spelling.h"
#include "oci/digest.h"
#include "oci/platform.h"
#include "store/facts.h"
#include "store/hold.h"
#include "store/json.h"

static const struct record_row rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct store_image, name), .flags = RECORD_MUST },
	{ "manifest", RECORD_TEXT, RECORD_AT(struct store_image, manifest), .flags = RECORD_MUST },
	{ "index", RECORD_TEXT, RECORD_AT(struct store_image, index) },
	{ "platform", RECORD_TEXT, RECORD_AT(struct store_image, platform), .flags = RECORD_MUST },
	{ "size", RECORD_NUMBER, RECORD_AT(struct store_image, size), .flags = RECORD_MUST },
	{ "pulled", RECORD_NUMBER, RECORD_AT(struct store_image, pulled), .flags = RECORD_MUST },
	{ "source", RECORD_TEXT, RECORD_AT(struct store_image, source) },
	{ NULL },
};

void store_image_done(struct store_image *im)
{
	record_done(rows, im);
	memset(im, 0, sizeof(*im));
}

void store_images_free(struct store_image *v, size_t n)
{
	free_all(v, n, store_image_done);
}

void store_image_path(const char *name, char path[STORE_IMAGE_PATH])
{
	char hex[HASH_HEX_SIZE];

	hash_name(name, hex);
	snprintf(path, STORE_IMAGE_PATH, "images/%s.json", hex);
}

int store_image_load(
	struct store *st, const char *path, struct store_image *ret, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	char right[STORE_IMAGE_PATH];

	TRY(store_json_take(st, path, rows, &im, err));
	if (oci_digest_check(im.manifest, NULL) < 0 ||
		(im.index && oci_digest_check(im.index, NULL) < 0))
		return store_json_bad(st, path, "a digest is invalid", err);
	store_image_path(im.name, right);
	if (strcmp(path, right) != 0)
		return store_json_bad(st, path, "it is another image's", err);
	*ret = take_struct(&im, { 0 });
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct store_image *)a)->name, ((const struct store_image *)b)->name);
}

/* Load every image; one that vanishes meanwhile was removed. */
static int load_all(
	struct store *st, DIR *d, struct store_image **v, size_t *n, struct mlr_error *err)
{
	for (struct dirent *e; (e = file_next(d));) {
		char path[sizeof("images/") + 255];
		size_t len = strlen(e->d_name);
		int r;

		if (len != 64 + strlen(".json") || strcmp(e->d_name + 64, ".json") != 0)
			continue;
		snprintf(path, sizeof(path), "images/%s", e->d_name);
		*v = xreallocarray(*v, *n + 1, sizeof(**v));
		r = store_image_load(st, path, &(*v)[*n], err);
		if (r == -ENOENT)
			continue;
		TRY(r);
		(*n)++;
	}
	return 0;
}

int store_image_list(struct store *st, struct store_image **ret, size_t *n, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "images", 0);
	struct store_image *v = NULL;
	size_t count = 0;
	int r;

	if (!d)
		return mlr_fail_errno(err, "open '%s/images'", store_path(st));
	r = load_all(st, d, &v, &count, err);
	if (r < 0) {
		store_images_free(v, count);
		return r;
	}
	sort_all(v, count, by_name);
	*ret = v;
	*n = count;
	return 0;
}

/* Is im of ref's repository, with a manifest or index that has ref's digest? */
static int has_digest(const struct store_image *im, const struct oci_ref *ref)
{
	auto_call(oci_ref_done) struct oci_ref name = { 0 };

	if (strcmp(im->manifest, ref->digest) != 0 &&
		(!im->index || strcmp(im->index, ref->digest) != 0))
		return 0;
	return oci_ref_parse(im->name, &name, NULL) == 0 &&
		strcmp(name.registry, ref->registry) == 0 &&
		strcmp(name.repository, ref->repository) == 0;
}

static int find_digest(
	struct store *st, const struct oci_ref *ref, struct store_image *ret, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;
	int r;

	TRY(store_image_list(st, &v, &n, err));
	r = -ENOENT;
	for (size_t i = 0; i < n && r < 0; i++) {
		if (!has_digest(&v[i], ref))
			continue;
		*ret = v[i];
		v[i] = (struct store_image){ 0 };
		r = 0;
	}
	store_images_free(v, n);
	return r;
}

/* The short form that users type: "debian:12" for "docker.io/library/debian:12". */
static const char *typed(const char *name)
{
	static const char library[] = "library/";
	const char *slash = strchr(name, '/');

	name = slash ? slash + 1 : name;
	return strncmp(name, library, strlen(library)) == 0 ? name + strlen(library) : name;
}

/* Suggest another tag of the same repository, else the most similar name. */
static void hint_near(struct store *st, const struct oci_ref *ref, struct mlr_error *err)
{
	auto_free char *name = oci_ref_canonical(ref);
	const char *want = typed(name);
	size_t n = 0, repository = strcspn(want, ":@");
	struct spelling s = spelling_of(want, strlen(want));
	struct store_image *v = NULL;
	const char *near = NULL;

	if (store_image_list(st, &v, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		const char *is = typed(v[i].name);

		if (!near && strcspn(is, ":@") == repository && strncmp(is, want, repository) == 0)
			near = v[i].name;
		spelling_try(&s, is);
	}
	for (size_t i = 0; i < n && !near && s.near; i++)
		if (typed(v[i].name) == s.near)
			near = v[i].name;
	if (near)
		mlr_hint(err, "is '%s' meant? mlrun images lists what is there", near);
	else
		mlr_hint(err, "mlrun images lists what is there");
	store_images_free(v, n);
}

static int find_exactly(
	struct store *st, const struct oci_ref *ref, struct store_image *ret, struct mlr_error *err)
{
	auto_free char *name = oci_ref_canonical(ref);
	struct mlr_error first = MLR_ERROR_INIT;
	char path[STORE_IMAGE_PATH];
	int r;

	store_image_path(name, path);
	r = store_image_load(st, path, ret, &first);
	if (r == -ENOENT && ref->digest)
		r = find_digest(st, ref, ret, &first);
	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "image '%s' is not in store '%s'", name, store_path(st));
		hint_near(st, ref, err);
	} else if (r < 0 && err) {
		*err = first;
	}
	return r;
}

/* "sha256:<hex>", which reads as a name and its tag, is a manifest here. */
static int find_manifest(struct store *st, const struct oci_ref *ref, struct store_image *ret)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	auto_free char *manifest = ref->tag ? xasprintf("sha256:%s", ref->tag) : NULL;
	struct oci_platform p;
	char platform[OCI_PLATFORM_SIZE];

	if (!ref->short_name || strcmp(ref->repository, "library/sha256") != 0 || !manifest ||
		oci_digest_check(manifest, NULL) < 0 || store_facts_get(st, manifest, &f, NULL) < 0)
		return -ENOENT;
	oci_platform_set(&p, f.config.os, f.config.architecture, f.config.variant);
	oci_platform_print(&p, platform);
	ret->platform = xstrdup(platform);
	ret->name = xstrdup(manifest);
	ret->manifest = take_ptr(&manifest);
	return 0;
}

int store_image_find(
	struct store *st, const struct oci_ref *ref, struct store_image *ret, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref local = { 0 };
	int r;

	if (find_manifest(st, ref, ret) == 0)
		return 0;
	if (ref->short_name) {
		oci_ref_copy(ref, &local);
		oci_ref_make_local(&local);
		r = find_exactly(st, &local, ret, err);
		if (r != -ENOENT)
			return r;
	}
	return find_exactly(st, ref, ret, err);
}

char *store_image_source(const struct oci_name *name)
{
	auto_free char *real = NULL, *cwd = NULL, *joined = NULL;

	if (name->transport == OCI_REGISTRY || name->transport == OCI_ANY_FILE ||
		strcmp(name->path, "-") == 0)
		return NULL;
	real = realpath(name->path, NULL);
	if (!real) { /* the image stays after its files are gone */
		cwd = *name->path == '/' ? NULL : realpath(".", NULL);
		joined = xasprintf("%s/%s", cwd ? cwd : "", name->path);
		real = path_clean(joined);
	}
	return xasprintf("%s%s%s%s", oci_transport_prefix(name->transport),
		real ? real : name->path, name->which ? ":" : "", name->which ? name->which : "");
}

/* Without REF, the only image from that place matches. */
static int is_from(const struct store_image *im, const char *source, const struct oci_name *name)
{
	size_t n = strlen(source);

	if (!im->source || strncmp(im->source, source, n) != 0)
		return 0;
	return im->source[n] == '\0' ? 2 : !name->which && im->source[n] == ':';
}

static int find_source(struct store *st, const struct oci_name *name, const char *source,
	struct store_image *ret, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0, best = 0, found = 0;
	int score = 0, r = store_image_list(st, &v, &n, err);

	TRY(r);
	for (size_t i = 0; i < n; i++) {
		int s = is_from(&v[i], source, name);

		found += s > 0;
		if (s > score || (s == score && s > 0 && v[i].pulled > v[best].pulled)) {
			score = s;
			best = i;
		}
	}
	if (score == 2 || found == 1) {
		*ret = v[best];
		v[best] = (struct store_image){ 0 };
	} else if (found > 1) {
		r = mlr_fail(err, EINVAL, "%zu images came from '%s': which one?", found, source);
		mlr_hint(err, "mlrun images lists their names");
	} else {
		r = mlr_fail(
			err, ENOENT, "no image from '%s' is in store '%s'", source, store_path(st));
		mlr_hint(err, "mlrun pull %s", source);
	}
	store_images_free(v, n);
	return r;
}

int store_image_find_name(struct store *st, const struct oci_name *name, struct store_image *ret,
	struct mlr_error *err)
{
	auto_free char *source = NULL;

	if (name->transport == OCI_REGISTRY)
		return store_image_find(st, &name->ref, ret, err);
	source = store_image_source(name);
	return find_source(st, name, source ? source : name->path, ret, err);
}

/* A name stands for a whole image: its facts and every format that they list. */
int store_image_check(struct store *st, const struct store_image *im, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };

	TRY(store_facts_get(st, im->manifest, &f, err));
	if (!f.formats)
		return mlr_fail(err, ENOENT, "the facts of %s name no format", im->manifest);
	for (unsigned bit = 1; bit < 1u << STORE_FORMATS; bit <<= 1) {
		auto_free char *missing = NULL;

		if ((f.formats & bit) &&
			!store_facts_whole(st, im->manifest, &f, (enum store_format)bit, &missing))
			return mlr_fail(err, ENOENT, "%s is not in the store", missing);
	}
	return 0;
}

char *store_image_other(struct store *st, const struct store_image *im)
{
	auto_call(store_image_done) struct store_image was = { 0 };
	char path[STORE_IMAGE_PATH];

	store_image_path(im->name, path);
	if (store_image_load(st, path, &was, NULL) < 0 || strcmp(was.manifest, im->manifest) == 0)
		return NULL;
	return take_ptr(&was.manifest);
}

int store_image_put(struct store *st, const struct store_image *im, struct mlr_error *err)
{
	char path[STORE_IMAGE_PATH];
	int r;

	TRY(store_hold(st, err));
	r = store_image_check(st, im, err);
	if (r < 0) {
		mlr_wrap(err, "name image '%s'", im->name);
		return r;
	}
	store_image_path(im->name, path);
	r = store_json_put(st, path, rows, im, err);
	if (r == 0 && store_hold_is_lost(st) && store_image_check(st, im, NULL) < 0) {
		/* a remover that ran meanwhile did not spare its parts */
		unlinkat(store_fd(st), path, 0);
		return store_hold_lost(st, err);
	}
	return r;
}
