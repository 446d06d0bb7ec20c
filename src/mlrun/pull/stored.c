#include "pull/stored.h"

#include "oci/manifest.h"
#include "store/facts.h"
#include "store/blob.h"

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
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;

	if (!has_documents(st, im, want->blobs) || store_facts_get(st, im->manifest, &f, NULL) < 0)
		return 0;
	*formats = f.formats;
	return has_format(st, im->manifest, &f, want->format);
}

int stored_find(struct store *st, const struct stored_want *want, struct store_image *ret,
	unsigned *formats)
{
	auto_call(store_image_done) struct store_image im = STORE_IMAGE_INIT;
	struct oci_platform have;

	if (store_image_find(st, want->ref, &im, NULL) < 0 || strcmp(im.name, want->name) != 0)
		return 0;
	if (oci_platform_parse(im.platform, &have, NULL) < 0 ||
		!oci_platform_match(want->platform, &have) || !is_whole(st, &im, want, formats))
		return 0;
	*ret = im;
	im = (struct store_image)STORE_IMAGE_INIT;
	return 1;
}
