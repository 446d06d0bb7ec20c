#include "store/parts.h"

#include "oci/digest.h"
#include "store/cache.h"
#include "store/container.h"
#include "store/facts.h"
#include "store/json.h"
#include "store/lease.h"

static void add_blob(struct strv *paths, const char *digest)
{
	if (digest)
		strv_addf(paths, "blobs/sha256/%s", oci_digest_hex(digest));
}

static void add_descriptor(struct strv *paths, const json_t *descriptor)
{
	const char *digest = json_string_value(json_object_get(descriptor, "digest"));

	if (digest && oci_digest_check(digest, NULL) == 0)
		add_blob(paths, digest);
}

/* Add the blobs that a manifest names. Its digest was checked when it was stored. */
static void add_blobs(struct store *st, const char *manifest, struct strv *paths)
{
	auto_free char *path = xasprintf("blobs/sha256/%s", oci_digest_hex(manifest));
	json_auto_t *o = NULL;
	json_t *layer;
	size_t i;

	add_blob(paths, manifest);
	if (store_json_read(st, path, &o, NULL) < 0)
		return;
	add_descriptor(paths, json_object_get(o, "config"));
	json_array_foreach(json_object_get(o, "layers"), i, layer)
		add_descriptor(paths, layer);
}

static int add_parts(
	struct store *st, const char *manifest, struct strv *paths, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;
	const char *hex = oci_digest_hex(manifest);
	int r = store_facts_get(st, manifest, &f, err);

	if (r < 0 && r != -ENOENT)
		return r;
	/* An image in squashfs format alone needs no layers; a tree (dir) shares its files with
	 * them. */
	for (size_t i = 0; f.formats != STORE_FORMAT_SQUASHFS && i < f.config.diff_ids.n; i++)
		strv_addf(paths, "layers/%s", oci_digest_hex(f.config.diff_ids.v[i]));
	strv_addf(paths, "cover/%s", hex);
	strv_addf(paths, "dir/%s", hex);
	strv_addf(paths, "squash/%s.sqfs", hex);
	strv_addf(paths, "facts/%s.json", hex);
	add_blobs(st, manifest, paths);
	return 0;
}

int store_parts_add_image(
	struct store *st, const struct store_image *im, struct strv *paths, struct mlr_error *err)
{
	add_blob(paths, im->index);
	return add_parts(st, im->manifest, paths, err);
}

int store_parts_in_use(struct store *st, const char *manifest)
{
	struct store_lease lease;
	auto_free char *container = NULL;

	if (store_lease_held(st, manifest, &lease))
		return 1;
	container = store_container_of(st, manifest);
	return container != NULL;
}

static int add_nameless(struct store *st, const char *file, const struct strv *named,
	struct strv *keep, struct strv *go, struct mlr_error *err)
{
	char manifest[OCI_DIGEST_SIZE];

	if (strlen(file) != 64 + strlen(".json") || strcmp(file + 64, ".json") != 0)
		return 0;
	snprintf(manifest, sizeof(manifest), "sha256:%.64s", file);
	if (oci_digest_check(manifest, NULL) < 0 || strv_has(named, manifest))
		return 0;
	return add_parts(st, manifest, store_parts_in_use(st, manifest) ? keep : go, err);
}

int store_parts_add_nameless(struct store *st, const struct strv *named, struct strv *keep,
	struct strv *go, struct mlr_error *err)
{
	DIR *d = file_open_dir(store_fd(st), "facts", 0);
	int r = 0;
	struct dirent *e;

	if (!d)
		return mlr_fail_errno(err, "open '%s/facts'", store_path(st));
	store_cache_keep(st, keep);
	while (r == 0 && (e = readdir(d)))
		r = add_nameless(st, e->d_name, named, keep, go, err);
	closedir(d);
	return r;
}

int store_parts_spared(const struct strv *digests, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < digests->n; i++)
		if (strncmp(digests->v[i], name, 64) == 0)
			return 1;
	return 0;
}
