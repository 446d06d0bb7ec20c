#include "oci/media.h"

#include "base/base.h"

static const struct {
	const char *type;
	enum oci_kind kind;
} kinds[] = {
	{ "application/vnd.oci.image.manifest.v1+json", OCI_MANIFEST },
	{ "application/vnd.docker.distribution.manifest.v2+json", OCI_MANIFEST },
	{ "application/vnd.oci.image.index.v1+json", OCI_INDEX },
	{ "application/vnd.docker.distribution.manifest.list.v2+json", OCI_INDEX },
};

const char *oci_media_artifact(const char *type)
{
	static const struct {
		const char *prefix, *words;
	} known[] = {
		{ "application/vnd.cncf.helm.", "a Helm chart" },
		{ "application/vnd.sylabs.sif.", "a Singularity image (SIF)" },
		{ "application/vnd.docker.plugin.", "a Docker plugin" },
		{ "application/vnd.dev.cosign.", "a signature" },
		{ "application/vnd.dev.sigstore.", "a signature" },
		{ "application/vnd.cncf.notary.", "a signature" },
		{ "application/vnd.in-toto", "an attestation" },
		{ "application/vnd.buildkit.cacheconfig.", "a build cache" },
		{ "application/vnd.wasm.", "a WebAssembly module" },
		{ "application/wasm", "a WebAssembly module" },
		{ "application/vnd.module.wasm.", "a WebAssembly module" },
		{ "application/vnd.unknown.config.", "files pushed by ORAS" },
		{ "application/vnd.oci.empty.", "an artifact without a configuration" },
		{ "application/vnd.oci.artifact.", "an artifact" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strncmp(type, known[i].prefix, strlen(known[i].prefix)) == 0)
			return known[i].words;
	return NULL;
}

int oci_media_kind(const char *type, enum oci_kind *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(type, kinds[i].type) == 0) {
			*ret = kinds[i].kind;
			return 0;
		}
	}
	if (strncmp(type, "application/vnd.docker.distribution.manifest.v1+", 48) == 0)
		return mlr_fail(err, ENOTSUP,
			"the image is in Docker's schema 1 of 2014, which is not supported: push "
			"it again with a current tool");
	if (oci_media_artifact(type))
		return mlr_fail(err, ENOTSUP, "this is %s, not a container image ('%.100s')",
			oci_media_artifact(type), type);
	return mlr_fail(err, ENOTSUP,
		"media type '%.100s' is neither an image manifest nor an index", type);
}

int oci_media_layer(const char *type, enum oci_compression *ret, struct mlr_error *err)
{
	if (oci_compression_of_type(type, ret) == 0)
		return 0;
	if (strstr(type, "encrypted"))
		return mlr_fail(
			err, ENOTSUP, "encrypted layers ('%.100s') are not supported", type);
	if (strstr(type, "foreign") || strstr(type, "nondistributable"))
		return mlr_fail(err, ENOTSUP,
			"foreign layers ('%.100s'), kept outside the registry, are not supported",
			type);
	return mlr_fail(err, ENOTSUP, "layers of media type '%.100s' are not supported", type);
}

int oci_media_is_config(const char *type)
{
	return strcmp(type, "application/vnd.oci.image.config.v1+json") == 0 ||
		strcmp(type, "application/vnd.docker.container.image.v1+json") == 0;
}

char *oci_media_from_header(const char *content_type)
{
	static const char *const vague[] = { "", "application/json", "text/plain",
		"application/octet-stream", "binary/octet-stream" };
	auto_free char *type = NULL;

	if (!content_type)
		return NULL;
	content_type += strspn(content_type, " \t");
	type = xstrndup(content_type, strcspn(content_type, "; \t\r\n"));
	for (char *s = type; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s += 'a' - 'A';
	for (size_t i = 0; i < ARRAY_LEN(vague); i++)
		if (strcmp(type, vague[i]) == 0)
			return NULL;
	return take_ptr(&type);
}
