/* Pushes steps of builds, as an image that nobody runs. */
#include "push/push.h"

#include "oci/config.h"
#include "oci/manifest.h"
#include "store/blob.h"

static uint64_t size_of(const struct oci_step *steps, const char *diff_id)
{
	while (strcmp(steps->diff_id, diff_id) != 0)
		steps++;
	return steps->size;
}

/* Layers are named by their diff IDs: the store has them uncompressed. */
static char *make_manifest(
	const struct oci_step *steps, const char *config, const struct strv *diff_ids)
{
	static char config_type[] = "application/vnd.oci.image.config.v1+json";
	auto_free struct oci_descriptor *layers = xcalloc(diff_ids->n + 1, sizeof(*layers));
	char digest[OCI_DIGEST_SIZE];
	struct oci_descriptor d = { digest, config_type, strlen(config) };

	hash_digest(config, strlen(config), digest);
	for (size_t i = 0; i < diff_ids->n; i++)
		layers[i] = (struct oci_descriptor){ diff_ids->v[i],
			(char *)oci_compression_type(OCI_PLAIN), size_of(steps, diff_ids->v[i]) };
	return oci_manifest_write(&d, layers, diff_ids->n, NULL, 0);
}

static int put(
	struct store *st, const char *text, char digest[OCI_DIGEST_SIZE], struct mlr_error *err)
{
	hash_digest(text, strlen(text), digest);
	return store_blob_put(st, digest, text, strlen(text), err);
}

int push_steps(struct store *st, const struct oci_step *steps, size_t n, const struct oci_ref *to,
	const struct push_options *opt, struct push_result *ret, struct mlr_error *err)
{
	auto_call(oci_config_done) struct oci_config c = { 0 };
	auto_free char *config = oci_steps_write(steps, n), *manifest = NULL;
	char config_digest[OCI_DIGEST_SIZE], digest[OCI_DIGEST_SIZE];
	struct store_image im = { .name = digest, .manifest = digest };

	TRY(oci_config_parse(config, strlen(config), &c, err));
	if (c.diff_ids.n > OCI_LAYERS_MAX)
		return mlr_fail(err, EFBIG, "the build has %zu layers, an image at most %d",
			c.diff_ids.n, OCI_LAYERS_MAX);
	manifest = make_manifest(steps, config, &c.diff_ids);
	TRY(put(st, config, config_digest, err));
	TRY(put(st, manifest, digest, err));
	return push_held(st, &im, to, opt, ret, err);
}
