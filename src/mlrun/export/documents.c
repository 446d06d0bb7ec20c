#include "export/documents.h"

#include "store/blob.h"

void documents_done(struct documents *d)
{
	free(d->manifest_text);
	free(d->config_text);
	oci_document_done(&d->manifest);
	oci_config_done(&d->config);
}

int documents_load(
	struct store *st, const char *manifest, struct documents *ret, struct mlr_error *err)
{
	TRY(store_blob_get(st, manifest, &ret->manifest_text, &ret->manifest_len, err));
	TRY(oci_document_parse(
		ret->manifest_text, ret->manifest_len, NULL, NULL, &ret->manifest, err));
	TRY(store_blob_get(
		st, ret->manifest.config.digest, &ret->config_text, &ret->config_len, err));
	TRY(oci_config_parse(ret->config_text, ret->config_len, &ret->config, err));
	if (ret->manifest.n_layers != ret->config.diff_ids.n)
		return mlr_fail(err, EPROTO, "the manifest has %zu layers, the configuration %zu",
			ret->manifest.n_layers, ret->config.diff_ids.n);
	return 0;
}
