#include "rootfs/image.h"

#include "base/base.h"
#include "oci/config.h"
#include "oci/digest.h"
#include "oci/platform.h"
#include "rootfs/flatten.h"
#include "rootfs/stacking.h"
#include "store/blob.h"
#include "store/open_dirs.h"

/* Make the extra trees that the layers need. */
static int stack(struct store *st, const char *manifest, int one_tree, struct store_facts *f,
	struct mlr_error *err)
{
	auto_strv struct strv cover = STRV_INIT;
	int r = rootfs_stacking(st, &f->config.diff_ids, &cover, err);

	if (r < 0)
		return r;
	if (r == ROOTFS_FLAT || one_tree) {
		mlr_debug("one tree is made of the layers");
		f->formats |= STORE_FORMAT_DIR;
		return rootfs_flatten(st, manifest, &f->config.diff_ids, err);
	}
	f->formats |= STORE_FORMAT_LAYERS;
	f->covered = r == ROOTFS_COVERED;
	return f->covered ? rootfs_cover(st, manifest, &f->config.diff_ids, &cover, err) : 0;
}

int rootfs_image_stack(struct store *st, const char *manifest, int one_tree, struct store_facts *f,
	struct mlr_error *err)
{
	TRY(stack(st, manifest, one_tree, f, err));
	return store_open_dirs(st, manifest, f, &f->open, err);
}

/* The OCI media type, even if the layers were named by other types. */
static const char *media_type(const struct oci_layer *l, const char *diff_id)
{
	/* A layer named by its diff ID is not compressed, whatever its type says. */
	int is_plain = strcmp(l->blob.digest, diff_id) == 0;

	return oci_compression_type(is_plain ? OCI_PLAIN : l->compression);
}

static char *make_manifest(const struct rootfs_image *im, const struct oci_config *c)
{
	static char config_type[] = "application/vnd.oci.image.config.v1+json";
	auto_free struct oci_descriptor *layers = xcalloc(im->n + 1, sizeof(*layers));
	char digest[OCI_DIGEST_SIZE];
	struct oci_descriptor config = { digest, config_type, strlen(im->config) };

	hash_digest(im->config, strlen(im->config), digest);
	for (size_t i = 0; i < im->n; i++) {
		layers[i] = im->layers[i].blob;
		layers[i].media_type = (char *)media_type(&im->layers[i], c->diff_ids.v[i]);
	}
	return oci_manifest_write(&config, layers, im->n, NULL, 0);
}

static int put_blob(struct store *st, const char *text, struct mlr_error *err)
{
	char digest[OCI_DIGEST_SIZE];

	hash_digest(text, strlen(text), digest);
	return store_blob_put(st, digest, text, strlen(text), err);
}

static int put_name(struct store *st, const char *name, const char *manifest,
	const struct rootfs_image *im, const struct store_facts *f, struct store_image *ret,
	struct mlr_error *err)
{
	struct oci_platform p;
	char platform[OCI_PLATFORM_SIZE];

	oci_platform_set(&p, f->config.os, f->config.architecture, f->config.variant);
	oci_platform_print(&p, platform);
	ret->name = xstrdup(name ? name : manifest);
	ret->manifest = xstrdup(manifest);
	ret->platform = xstrdup(platform);
	ret->source = im->source ? xstrdup(im->source) : NULL;
	ret->pulled = time(NULL);
	for (size_t i = 0; i < im->n; i++)
		ret->size += im->layers[i].blob.size;
	return name ? store_image_put(st, ret, err) : 0;
}

int rootfs_image_put(struct store *st, const char *name, const struct rootfs_image *im,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;
	auto_free char *manifest = NULL;
	char digest[OCI_DIGEST_SIZE];

	TRY(oci_config_parse(im->config, strlen(im->config), &f.config, err));
	if (f.config.diff_ids.n != im->n)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			im->n, f.config.diff_ids.n);
	manifest = make_manifest(im, &f.config);
	hash_digest(manifest, strlen(manifest), digest);
	TRY(put_blob(st, manifest, err));
	TRY(put_blob(st, im->config, err));
	TRY(rootfs_image_stack(st, digest, im->one_tree, &f, err));
	TRY(store_facts_put(st, digest, &f, err));
	return put_name(st, name, digest, im, &f, ret, err);
}
