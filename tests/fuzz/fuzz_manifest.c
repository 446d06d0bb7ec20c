/* Manifests, indexes and configurations. The first byte chooses what the document is said to be. */
#include "oci/config.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "oci/steps.h"
#include "recipe/derive.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ZEROS "0000000000000000"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const types[] = { NULL, "application/vnd.oci.image.manifest.v1+json",
	"application/vnd.oci.image.index.v1+json; charset=utf-8",
	"application/vnd.docker.distribution.manifest.v2+json",
	"application/vnd.docker.distribution.manifest.list.v2+json", "application/json",
	"text/html", "application/vnd.docker.distribution.manifest.v1+prettyjws" };

static void check_document(const char *json, size_t len, uint8_t choice)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	const struct oci_index_entry *entry = NULL;
	struct oci_platform host;

	if (oci_document_parse(json, len, types[choice % 8], types[choice / 8 % 8], &d, &err) < 0)
		return;
	if (d.kind == OCI_MANIFEST && (d.n_entries || oci_digest_check(d.config.digest, NULL) < 0))
		abort();
	for (size_t i = 0; i < d.n_layers; i++)
		if (d.kind != OCI_MANIFEST || oci_digest_check(d.layers[i].blob.digest, NULL) < 0)
			abort();
	for (size_t i = 0; i < d.n_entries; i++)
		if (oci_digest_check(d.entries[i].blob.digest, NULL) < 0)
			abort();
	oci_platform_host(&host);
	if (d.kind == OCI_INDEX && oci_index_choose(&d, &host, &entry, &err) == 0 && !entry)
		abort();
	oci_document_done(&d);
}

/* What mlrun commit makes of it is a configuration again, unless it is refused. */
static void check_derived(const char *json, size_t len, size_t layers)
{
	static char env[] = "ENV A=1 B=$PATH", entry[] = "ENTRYPOINT a b", dir[] = "WORKDIR x",
		    label[] = "LABEL l 1";
	char *v[] = { env, entry, dir, label, NULL };
	const struct strv lines = { v, 4 };
	struct instruction *changes = NULL;
	struct derive d = { .diff_id = "sha256:" ZEROS ZEROS ZEROS ZEROS,
		.created = "2026-01-01T00:00:00Z",
		.created_by = "fuzz" };
	struct oci_config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char *text = NULL;
	int r;

	if (derive_parse(&lines, &changes, &d.n_changes, &err) < 0)
		abort();
	d.changes = changes;
	r = derive_config(json, len, &d, &text, &err);
	for (size_t i = 0; i < d.n_changes; i++)
		instruction_done(&changes[i]);
	free(changes);
	if (r < 0) {
		if (!*err.text)
			abort();
		return;
	}
	if (oci_config_parse(text, strlen(text), &c, &err) < 0 || c.diff_ids.n != layers + 1 ||
		c.entrypoint.n != 3)
		abort();
	oci_config_done(&c);
	free(text);
}

static void check_config(const char *json, size_t len)
{
	struct oci_config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (oci_config_parse(json, len, &c, &err) < 0)
		return;
	if (!c.os || !c.architecture)
		abort();
	for (size_t i = 0; i < c.diff_ids.n; i++)
		if (oci_digest_check(c.diff_ids.v[i], NULL) < 0)
			abort();
	check_derived(json, len, c.diff_ids.n);
	oci_config_done(&c);
}

static void check_steps(const char *json, size_t len)
{
	struct oci_step *v, *again;
	struct mlr_error err = MLR_ERROR_INIT;
	size_t n, n_again;
	char *text;

	if (oci_steps_parse(json, len, &v, &n, &err) < 0)
		return;
	text = oci_steps_write(v, n);
	if (oci_steps_parse(text, strlen(text), &again, &n_again, &err) < 0 || n_again != n ||
		(n > 0 && memcmp(v, again, n * sizeof(*v)) != 0))
		abort();
	free(text);
	free(again);
	free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	check_document((const char *)data + 1, size - 1, data[0]);
	check_config((const char *)data + 1, size - 1);
	check_steps((const char *)data + 1, size - 1);
	return 0;
}
