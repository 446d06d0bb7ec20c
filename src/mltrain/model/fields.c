#include "model/fields.h"

#include "base/base.h"
#include "base/escape.h"
#include "base/spelling.h"

#define SHOWN_MAX 40

char *fields_shown(const json_t *value)
{
	auto_free char *text =
		json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));

	if (!text)
		return xstrdup("what is there");
	return strlen(text) <= SHOWN_MAX ? take_ptr(&text) : xasprintf("%.*s...", SHOWN_MAX, text);
}

static int wrong(const json_t *value, const char *key, const char *wanted, struct mlr_error *err)
{
	auto_free char *shown = fields_shown(value);

	return mlr_fail(err, EINVAL, "'%s' must be %s, not %s", key, wanted, shown);
}

int fields_known(const json_t *object, const char *const *keys, size_t n, const char *whose,
	struct mlr_error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		struct spelling s = spelling_of(key, strlen(key));
		size_t i = 0;

		for (; i < n && keys[i] && strcmp(keys[i], key) != 0; i++)
			spelling_try(&s, keys[i]);
		if (i < n && keys[i])
			continue;
		mlr_fail(err, EINVAL, "'%.40s' is not a key of %s", key, whose);
		return s.near
			? mlr_hint(err, "is '%s' meant? mltrain-net(5) tells all keys", s.near)
			: mlr_hint(err, "mltrain-net(5) tells all keys");
	}
	return 0;
}

int fields_count(const json_t *object, const char *key, long long min, long long max,
	long long *ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);
	auto_free char *wanted = NULL;

	if (!v)
		return 0;
	if (json_is_integer(v) && json_integer_value(v) >= min && json_integer_value(v) <= max) {
		*ret = json_integer_value(v);
		return 0;
	}
	wanted = xasprintf("a whole number from %lld to %lld", min, max);
	return wrong(v, key, wanted, err);
}

int fields_number(const json_t *object, const char *key, double min, double max, double *ret,
	struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);
	auto_free char *wanted = NULL;

	if (!v)
		return 0;
	if (json_is_number(v) && json_number_value(v) >= min && json_number_value(v) <= max) {
		*ret = json_number_value(v);
		return 0;
	}
	wanted = xasprintf("a number from %g to %g", min, max);
	return wrong(v, key, wanted, err);
}

int fields_flag(const json_t *object, const char *key, int *ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(v, key, "true or false", err);
	*ret = json_is_true(v);
	return 0;
}

int fields_text(
	const json_t *object, const char *key, size_t max, const char **ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);
	const char *s = json_string_value(v);
	auto_free char *wanted = NULL;
	char shown[ESCAPE_SIZE];
	size_t len;

	if (!v)
		return 0;
	for (len = 0; s && s[len] && escape_next(s + len, shown) == 1 && shown[0] == s[len];)
		len++; /* a control character is shown as something else */
	if (s && !s[len] && len >= 1 && len <= max) {
		*ret = s;
		return 0;
	}
	wanted = xasprintf("a text of 1 to %zu letters", max);
	return wrong(v, key, wanted, err);
}

int fields_word(const json_t *object, const char *key, const char *const *words, size_t n,
	size_t *ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);
	const char *s = json_string_value(v);
	struct spelling near = spelling_of(s ? s : "", s ? strlen(s) : 0);
	char wanted[256] = "one of";
	size_t used = strlen(wanted);

	if (!v)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (s && strcmp(s, words[i]) == 0) {
			*ret = i;
			return 0;
		}
		spelling_try(&near, words[i]);
		if (used < sizeof(wanted))
			used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s %s",
				i ? "," : "", words[i]);
	}
	wrong(v, key, wanted, err);
	return near.near ? mlr_hint(err, "is '%s' meant?", near.near) : -EINVAL;
}

int fields_object(const json_t *object, const char *key, const json_t **ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(object, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return wrong(v, key, "an object, {...}", err);
	*ret = v;
	return 0;
}
