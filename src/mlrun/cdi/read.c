#include "cdi/read.h"

#include "base/base.h"
#include "base/yaml.h"

int cdi_read_wrong(struct cdi_reader *r, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	return mlr_fail(r->err, EPROTO, "%s", text);
}

int cdi_read_type(struct cdi_reader *r, const char *wanted, const json_t *is)
{
	static const char *const names[] = { [JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a fractional number",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null" };

	return cdi_read_wrong(r, "expected %s, found %s", wanted, names[json_typeof(is)]);
}

static const struct cdi_field *find(const struct cdi_field *fields, const char *key)
{
	while (fields->key && strcasecmp(fields->key, key) != 0)
		fields++;
	return fields->key ? fields : NULL;
}

/* null and the empty string count as absent. */
static int is_nothing(const json_t *j)
{
	return json_is_null(j) || (json_is_string(j) && json_string_length(j) == 0);
}

static int read_list(struct cdi_reader *r, const json_t *j, const struct cdi_field *f, void *to)
{
	json_t *item;
	size_t i;

	if (!json_is_array(j))
		return cdi_read_type(r, "a list", j);
	json_array_foreach((json_t *)j, i, item) {
		int err = f->read(r, item, to);

		if (err < 0)
			return mlr_wrap(r->err, "[%zu]", i), err;
	}
	return 0;
}

static int read_fields(struct cdi_reader *r, const json_t *j, const struct cdi_field *fields,
	void *to, uint64_t *seen)
{
	const char *key;
	json_t *item;

	json_object_foreach((json_t *)j, key, item) {
		const struct cdi_field *f = find(fields, key);
		uint64_t bit = f ? (uint64_t)1 << (f - fields) : 0;
		int err;

		if (!f)
			return cdi_read_wrong(r, "unknown key '%.100s'", key);
		if (*seen & bit)
			return cdi_read_wrong(r, "the key '%s' appears twice", f->key);
		*seen |= bit;
		if (is_nothing(item)) {
			if (f->must)
				return cdi_read_wrong(r, "%s: empty", f->key);
			continue;
		}
		err = f->is_list ? read_list(r, item, f, (char *)to + f->at)
				 : f->read(r, item, (char *)to + f->at);
		if (err < 0)
			return mlr_wrap(r->err, "%s", f->key), err;
	}
	return 0;
}

int cdi_read_object(struct cdi_reader *r, const json_t *j, const struct cdi_field *fields, void *to)
{
	uint64_t seen = 0;
	int err;

	if (!json_is_object(j))
		return cdi_read_type(r, "an object", j);
	err = read_fields(r, j, fields, to, &seen);
	for (size_t i = 0; err == 0 && fields[i].key; i++)
		if (fields[i].must && !(seen & (uint64_t)1 << i))
			err = cdi_read_wrong(r, "%s: missing", fields[i].key);
	return err;
}

/* Go's strconv.FormatFloat(v, 'g', -1, 64): the fewest digits that identify v. */
static char *print_real(double v)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return xstrdup(text);
}

int cdi_read_text(struct cdi_reader *r, const json_t *j, void *to)
{
	char **ret = to;

	free(*ret);
	*ret = NULL;
	if (json_is_string(j) && strlen(json_string_value(j)) == json_string_length(j))
		*ret = xstrdup(json_string_value(j));
	else if (json_is_integer(j))
		*ret = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(j));
	else if (json_is_real(j))
		*ret = print_real(json_real_value(j));
	else if (json_is_boolean(j))
		*ret = xstrdup(json_is_true(j) ? "true" : "false");
	else
		return cdi_read_type(r, "a string", j);
	return 0;
}

int cdi_read_text_item(struct cdi_reader *r, const json_t *j, void *to)
{
	char *text = NULL;
	int err = json_is_null(j) ? 0 : cdi_read_text(r, j, &text);

	if (err == 0)
		strv_take(to, text ? text : xstrdup(""));
	return err;
}

/* Read a whole number; "195.0" is one too. */
static int whole(struct cdi_reader *r, const json_t *j, json_int_t max, int64_t *ret)
{
	json_int_t v = json_integer_value(j);

	if (json_is_real(j) && json_real_value(j) >= 0 && json_real_value(j) < 1e15)
		v = (json_int_t)json_real_value(j);
	if (!json_is_number(j) || (json_is_real(j) && (double)v != json_real_value(j)))
		return cdi_read_type(r, "a whole number", j);
	if (v < 0 || v > max)
		return cdi_read_wrong(r,
			"%" JSON_INTEGER_FORMAT " is not between 0 and %" JSON_INTEGER_FORMAT, v,
			max);
	*ret = v;
	return 0;
}

int cdi_read_int64(struct cdi_reader *r, const json_t *j, void *to)
{
	return whole(r, j, INT32_MAX, to);
}

int cdi_read_uint32(struct cdi_reader *r, const json_t *j, void *to)
{
	return whole(r, j, UINT32_MAX, to);
}

int cdi_read_bool(struct cdi_reader *r, const json_t *j, void *to)
{
	if (!json_is_boolean(j))
		return cdi_read_type(r, "true or false", j);
	*(int *)to = json_is_true(j);
	return 0;
}

int cdi_read_load(const char *text, size_t size, json_t **ret, struct mlr_error *err)
{
	size_t blank = 0;
	json_error_t where;

	while (blank < size && strchr(" \t\r\n", text[blank]) && text[blank])
		blank++;
	if (blank == size)
		return mlr_fail(err, EPROTO, "it is empty");
	if (text[blank] != '{')
		return mlr_yaml_load(text, size, MLR_YAML_TYPES, NULL, ret, err);
	*ret = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	/* YAML too may begin with a brace: "{kind: ...}". */
	if (*ret || mlr_yaml_load(text, size, MLR_YAML_TYPES, NULL, ret, NULL) == 0)
		return 0;
	return mlr_fail(err, EPROTO, "line %d: %s", where.line, where.text);
}
