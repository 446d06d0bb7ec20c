#include "base/json.h"

#include "base/base.h"

#include <math.h>

json_t *mlr_json_load(const char *text, size_t len, size_t flags, json_error_t *why)
{
	size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	return json_loadb(text + mark, len - mark, flags, why);
}

static json_t *latin(const char *s)
{
	size_t len = strlen(s), n = 0;
	char *out = malloc(2 * len + 1);
	json_t *text;

	if (!out)
		return NULL;
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c >= 0x80) {
			out[n++] = (char)(0xc0 | c >> 6);
			c = 0x80 | (c & 0x3f);
		}
		out[n++] = (char)c;
	}
	text = json_stringn(out, n);
	free(out);
	return text;
}

json_t *mlr_json_text(const char *s)
{
	json_t *text = s ? json_string(s) : json_null();

	return text ? text : latin(s);
}

json_t *mlr_json_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *mlr_json_texts(const struct strv *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(list, mlr_json_text(l->v[i]));
	return list;
}

json_t *mlr_json_pairs(const struct strv *l)
{
	json_t *o = json_object();

	for (size_t i = 0; i + 1 < l->n; i += 2)
		json_object_set_new(o, l->v[i], mlr_json_text(l->v[i + 1]));
	return o;
}

char *mlr_json_print(json_t *take, size_t flags)
{
	char *text = take ? json_dumps(take, flags) : NULL;

	json_decref(take);
	if (!text)
		mlr_oom();
	return text;
}
