#include "oci/steps.h"

#include "base/base.h"
#include "oci/json.h"
#include "oci/manifest.h"
#include "oci/platform.h"

#define KEY "org.mlrun.steps"

char *oci_steps_write(const struct oci_step *steps, size_t n)
{
	auto_strv struct strv layers = STRV_INIT;
	json_t *list = json_array(), *ids = json_array();
	json_auto_t *o = NULL;
	struct oci_platform host;

	for (size_t i = 0; i < n; i++) {
		const struct oci_step *s = &steps[i];

		json_array_append_new(list,
			json_pack("{s:s, s:s?, s:I, s:I}", "key", s->key, "layer",
				*s->diff_id ? s->diff_id : NULL, "size", (json_int_t)s->size,
				"created", (json_int_t)s->created));
		if (!*s->diff_id || strv_has(&layers, s->diff_id))
			continue;
		strv_add(&layers, s->diff_id);
		json_array_append_new(ids, json_string(s->diff_id));
	}
	oci_platform_host(&host);
	o = json_pack("{s:s, s:s, s:{}, s:{s:s, s:o}, s:o}", "architecture", host.arch, "os",
		host.os, "config", "rootfs", "type", "layers", "diff_ids", ids, KEY, list);
	return json_dumps(o, JSON_COMPACT);
}

static int parse_one(json_t *o, struct oci_step *ret, struct mlr_error *err)
{
	const char *key = NULL, *layer = NULL;
	const json_t *created = json_object_get(o, "created");
	int r = json_is_object(o) ? oci_json_text(o, "key", &key, err)
				  : mlr_fail(err, EPROTO, "a step is no object");

	if (r == 0)
		r = oci_json_text(o, "layer", &layer, err);
	if (r == 0)
		r = oci_json_size(o, "size", &ret->size, err);
	if (r == 0)
		r = oci_digest_check(key ? key : "", err);
	if (r == 0 && layer)
		r = oci_digest_check(layer, err);
	if (r == 0 &&
		(!json_is_integer(created) || json_integer_value(created) < 0 ||
			json_integer_value(created) > OCI_STEP_TIME_MAX))
		r = mlr_fail(err, EPROTO, "'created' is no time");
	if (r < 0)
		return -EPROTO;
	strcpy(ret->key, key);
	strcpy(ret->diff_id, layer ? layer : "");
	ret->created = json_integer_value(created);
	return 0;
}

int oci_steps_parse(
	const char *json, size_t len, struct oci_step **ret, size_t *n, struct mlr_error *err)
{
	json_auto_t *o = NULL;
	auto_free struct oci_step *v = NULL;
	json_t *list, *one;
	size_t i;
	int r = oci_json_load(json, len, OCI_DOCUMENT_MAX, &o, err);

	if (r == 0)
		r = oci_json_array(o, KEY, &list, err);
	if (r < 0)
		return r;
	v = xcalloc(json_array_size(list) + 1, sizeof(*v));
	json_array_foreach(list, i, one) {
		r = parse_one(one, &v[i], err);
		if (r < 0)
			return mlr_wrap(err, "%s: step %zu", KEY, i + 1);
	}
	*n = json_array_size(list);
	*ret = take_ptr(&v);
	return 0;
}
