#include "oci/json.h"

#include <errno.h>

static int load(const char *text, size_t len, size_t max, json_type type, json_t **ret,
	struct mlr_error *err)
{
	json_error_t why;
	json_t *root;

	if (len > max)
		return mlr_fail(
			err, EFBIG, "a JSON document of %zu bytes; the limit is %zu", len, max);

	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return mlr_fail(err, EPROTO, "not JSON: line %d: %s", why.line, why.text);
	if (json_typeof(root) != type) {
		json_decref(root);
		return mlr_fail(err, EPROTO, "a JSON document that is not an %s",
			type == JSON_ARRAY ? "array" : "object");
	}
	*ret = root;
	return 0;
}

int oci_json_load(const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err)
{
	return load(text, len, max, JSON_OBJECT, ret, err);
}

int oci_json_load_array(
	const char *text, size_t len, size_t max, json_t **ret, struct mlr_error *err)
{
	return load(text, len, max, JSON_ARRAY, ret, err);
}

static int get(json_t *obj, const char *key, json_type type, const char *want, json_t **ret,
	struct mlr_error *err)
{
	json_t *v = json_object_get(obj, key);

	if (v && !json_is_null(v) && json_typeof(v) != type)
		return mlr_fail(err, EPROTO, "\"%s\" is not %s", key, want);
	*ret = json_is_null(v) ? NULL : v;
	return 0;
}

int oci_json_text(json_t *obj, const char *key, const char **ret, struct mlr_error *err)
{
	json_t *v = NULL;
	int r = get(obj, key, JSON_STRING, "a string", &v, err);

	if (r < 0)
		return r;
	for (const char *s = v ? json_string_value(v) : ""; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return mlr_fail(err, EPROTO, "\"%s\" holds control characters", key);
	*ret = json_string_value(v);
	return 0;
}

int oci_json_object(json_t *obj, const char *key, json_t **ret, struct mlr_error *err)
{
	return get(obj, key, JSON_OBJECT, "an object", ret, err);
}

int oci_json_array(json_t *obj, const char *key, json_t **ret, struct mlr_error *err)
{
	return get(obj, key, JSON_ARRAY, "an array", ret, err);
}

int oci_json_size(json_t *obj, const char *key, uint64_t *ret, struct mlr_error *err)
{
	json_t *v = NULL;
	int r = get(obj, key, JSON_INTEGER, "a whole number", &v, err);

	if (r < 0)
		return r;
	if (!v)
		return mlr_fail(err, EPROTO, "\"%s\" is missing", key);
	if (json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > OCI_SIZE_MAX)
		return mlr_fail(err, EPROTO, "\"%s\" is %lld, which no size is", key,
			(long long)json_integer_value(v));
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int oci_json_texts(json_t *obj, const char *key, struct strv *ret, struct mlr_error *err)
{
	json_t *list, *v;
	size_t i;
	int r = oci_json_array(obj, key, &list, err);

	if (r < 0)
		return r;
	json_array_foreach(list, i, v) {
		if (!json_is_string(v))
			return mlr_fail(err, EPROTO, "\"%s\": entry %zu is not a string", key, i);
		strv_add(ret, json_string_value(v));
	}
	return 0;
}
