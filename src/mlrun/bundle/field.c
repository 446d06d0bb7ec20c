#include "bundle/field.h"

#include <errno.h>

/* The member, if it has a value. */
static const json_t *find(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

static int wrong(const char *key, const char *expected, struct mlr_error *err)
{
	return mlr_fail(err, EPROTO, "'%s': expected %s", key, expected);
}

int field_text(const json_t *o, const char *key, const char **ret, struct mlr_error *err)
{
	const json_t *v = find(o, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return wrong(key, "a string", err);
	*ret = json_string_value(v);
	return 0;
}

int field_object(const json_t *o, const char *key, const json_t **ret, struct mlr_error *err)
{
	const json_t *v = find(o, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return wrong(key, "an object", err);
	*ret = v;
	return 0;
}

int field_list(const json_t *o, const char *key, const json_t **ret, struct mlr_error *err)
{
	const json_t *v = find(o, key);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return wrong(key, "a list", err);
	*ret = v;
	return 0;
}

int field_flag(const json_t *o, const char *key, int *ret, struct mlr_error *err)
{
	const json_t *v = find(o, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(key, "true or false", err);
	*ret = json_is_true(v);
	return 0;
}

int field_number(const json_t *o, const char *key, json_int_t min, json_int_t max, json_int_t *ret,
	struct mlr_error *err)
{
	const json_t *v = find(o, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
		return mlr_fail(err, EPROTO,
			"'%s': expected a whole number from %" JSON_INTEGER_FORMAT
			" to %" JSON_INTEGER_FORMAT,
			key, min, max);
	*ret = json_integer_value(v);
	return 0;
}

int field_texts(const json_t *o, const char *key, struct strv *ret, struct mlr_error *err)
{
	const json_t *list = NULL, *v;
	size_t i;

	TRY(field_list(o, key, &list, err));
	json_array_foreach(list, i, v) {
		if (!json_is_string(v))
			return wrong(key, "a list of strings", err);
		strv_add(ret, json_string_value(v));
	}
	return 0;
}
