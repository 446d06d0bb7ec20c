#include "serve/ask.h"

#include "base/base.h"
#include "base/json.h"

int serve_memory_take(struct serve_memory *m, size_t bytes)
{
	if (atomic_fetch_add(m->used, (int_fast64_t)bytes) + (int64_t)bytes <= m->most)
		return 0;
	serve_memory_give(m, bytes);
	return -EBUSY;
}

void serve_memory_give(struct serve_memory *m, size_t bytes)
{
	atomic_fetch_sub(m->used, (int_fast64_t)bytes);
}

int serve_ask_images(struct serve_ask *ask, size_t rows, struct mlr_error *err)
{
	size_t size;

	if (rows == 0)
		return mlr_fail(err, EINVAL, "no images");
	if (rows > (size_t)ask->rows_max)
		return mlr_fail(err, EFBIG, "%zu images are more than %d", rows, ask->rows_max);
	size = rows * ask->model->pixels;
	if (serve_memory_take(ask->memory, size) < 0)
		return mlr_fail(err, EBUSY, "too many requests: no memory for %zu images", rows);
	ask->taken = size;
	ask->images = malloc(size);
	if (!ask->images)
		return mlr_fail(err, ENOMEM, "no memory for %zu images", rows);
	ask->rows = (int)rows;
	return 0;
}

void serve_ask_done(struct serve_ask *ask)
{
	free(ask->images);
	ask->images = NULL;
	if (ask->taken)
		serve_memory_give(ask->memory, ask->taken);
	ask->taken = 0;
}

int serve_ask_is_picture(const struct serve_ask *ask)
{
	static const char *const types[] = { "image/png", "image/jpeg" };
	size_t n = strcspn(ask->type, "; ");

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (n == strlen(types[i]) && strncasecmp(ask->type, types[i], n) == 0)
			return 1;
	return 0;
}

/*
 * The most that jansson takes for a text, malloc(3)'s rounding and the copies included that it
 * makes to grow. Of each byte that begins or separates values: an object with its first buckets, an
 * array with its first places, a member, half a string, and a number's place and itself. What
 * stands in strings counts as well: pictures in base64 have none of it.
 */
static size_t json_cost(const char *text, size_t len)
{
	static const unsigned char cost[256] = {
		['{'] = 240, ['['] = 144, [':'] = 136, ['"'] = 40, [','] = 56
	};
	size_t sum = 3 * len;

	for (size_t i = 0; i < len; i++)
		sum += cost[(unsigned char)text[i]];
	return sum;
}

static int take_json(struct serve_ask *ask, size_t len, struct mlr_error *err)
{
	size_t cost = json_cost(ask->body, len);

	if ((int64_t)cost > ask->memory->most)
		return mlr_fail(err, EFBIG, "the JSON's values would take %zu bytes", cost);
	if (serve_memory_take(ask->memory, cost) < 0)
		return mlr_fail(err, EBUSY, "too many requests: no memory for the JSON");
	ask->parsed = cost;
	return 0;
}

json_t *serve_ask_json(struct serve_ask *ask, size_t len, struct mlr_error *err)
{
	json_error_t where;
	json_t *v;

	if (take_json(ask, len, err) < 0)
		return NULL;
	v = json_loadb(ask->body, len, JSON_REJECT_DUPLICATES, &where);
	if (!v)
		mlr_fail(err, EPROTO, "the body is not JSON: line %d, column %d: %s", where.line,
			where.column, where.text);
	return v;
}

void serve_ask_parsed(struct serve_ask *ask)
{
	serve_memory_give(ask->memory, ask->parsed);
	ask->parsed = 0;
}

int serve_reply_json(struct serve_reply *ret, json_t *value, struct mlr_error *err)
{
	ret->body = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(value);
	if (!ret->body)
		return mlr_fail(err, ENOMEM, "no memory for the answer");
	ret->len = strlen(ret->body);
	return 0;
}

json_t *serve_reply_error(const char *text)
{
	return json_pack("{s:o}", "error", mlr_json_text(text));
}
