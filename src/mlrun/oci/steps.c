#include "oci/steps.h"

#include "base/json.h"
#include "oci/json.h"
#include "oci/manifest.h"

#define KEY "org.mlrun.steps"

static int check_digest(const struct record_reader *r, void *member)
{
	return *(char *)member ? oci_digest_check(member, r->err) : 0;
}

#define AT(member) RECORD_AT(struct oci_step, member)

static const struct record_row step_rows[] = {
	{ "key", RECORD_CHARS, AT(key), .flags = RECORD_MUST, .rule = check_digest },
	{ "layer", RECORD_CHARS, AT(diff_id), .flags = RECORD_NULL, .rule = check_digest },
	{ "size", RECORD_NUMBER, AT(size), .flags = RECORD_MUST, .max = OCI_SIZE_MAX },
	{ "created", RECORD_NUMBER, AT(created), .flags = RECORD_MUST, .max = OCI_STEP_TIME_MAX },
	{ NULL },
};

struct steps {
	struct oci_step *v;
	size_t n;
};

static const struct record_row rows[] = {
	{ KEY, RECORD_LIST, RECORD_ITEMS(struct steps, v, n, step_rows) },
	{ NULL },
};

char *oci_steps_write(const struct oci_step *steps, size_t n)
{
	const struct steps all = { (struct oci_step *)steps, n };
	auto_strv struct strv layers = STRV_INIT;
	struct oci_platform host;

	for (size_t i = 0; i < n; i++)
		if (*steps[i].diff_id && !strv_has(&layers, steps[i].diff_id))
			strv_add(&layers, steps[i].diff_id);
	oci_platform_host(&host);
	return mlr_json_print(
		json_pack("{s:s, s:s, s:{}, s:{s:s, s:o}, s:o}", "architecture", host.arch, "os",
			host.os, "config", "rootfs", "type", "layers", "diff_ids",
			mlr_json_texts(&layers), KEY, record_write_value(rows, &all)),
		JSON_COMPACT);
}

int oci_steps_parse(
	const char *json, size_t len, struct oci_step **ret, size_t *n, struct mlr_error *err)
{
	struct steps all = { NULL, 0 };
	int r = oci_json_read(json, len, OCI_DOCUMENT_MAX, rows, &all, err);

	if (r < 0) {
		free(all.v);
		return -EPROTO;
	}
	*n = all.n;
	*ret = all.v ? all.v : xcalloc(1, sizeof(**ret));
	return 0;
}
