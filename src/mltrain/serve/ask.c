#include "serve/ask.h"

#include "base/json.h"

#include <openssl/evp.h>

/* Reads images out of what clients send: numbers in JSON, pictures, base64 (RFC 4648). */

/* Pixels of all pictures of a request: at most, 48 MiB once decoded; and as many as the thread that
 * speaks HTTP decodes itself. */
#define SERVE_PICTURE_PIXELS ((size_t)1 << 24)
#define SERVE_PIXELS_AT_ONCE ((size_t)1 << 16)

#define DEPTH_MAX 8 /* of v2's nested data */

int serve_values_byte(double v, uint8_t *to, struct mlr_error *err)
{
	if (!(v >= 0 && v <= 255) || v != (double)(uint8_t)v)
		return mlr_fail(err, EINVAL, "%g is not a pixel: a whole number from 0 to 255", v);
	*to = (uint8_t)v;
	return 0;
}

static int one_number(const json_t *v, uint8_t *to, struct mlr_error *err)
{
	if (!json_is_number(v))
		return mlr_fail(err, EINVAL, "an image has something that is not a number");
	return serve_values_byte(json_number_value(v), to, err);
}

static int flat(
	const json_t *v, int depth, size_t count, size_t *n, uint8_t *to, struct mlr_error *err)
{
	if (!json_is_array(v)) {
		if (*n >= count)
			return mlr_fail(err, EINVAL, "more than %zu numbers", count);
		return one_number(v, &to[(*n)++], err);
	}
	if (depth == DEPTH_MAX)
		return mlr_fail(err, EINVAL, "arrays nest deeper than %d", DEPTH_MAX);
	for (size_t i = 0; i < json_array_size(v); i++)
		TRY(flat(json_array_get(v, i), depth + 1, count, n, to, err));
	return 0;
}

int serve_values_flat(const json_t *v, size_t count, uint8_t *to, struct mlr_error *err)
{
	size_t n = 0;

	TRY(flat(v, 0, count, &n, to, err));
	if (n != count)
		return mlr_fail(err, EINVAL, "%zu numbers where %zu are wanted", n, count);
	return 0;
}

int serve_values_picture(
	const void *bytes, size_t len, struct serve_ask *ask, uint8_t *to, struct mlr_error *err)
{
	const struct serve_model *model = ask->model;
	struct image_size is;
	int r;

	if (model->input.channels != 1 && model->input.channels != 3)
		return mlr_fail(err, EINVAL, "the network reads %u channels, which no picture has",
			model->input.channels);
	r = image_probe_bytes(bytes, len, &is, err);
	if (r == 0) {
		ask->picture_pixels += (size_t)is.height * is.width;
		if (ask->picture_pixels > SERVE_PICTURE_PIXELS)
			r = mlr_fail(err, EFBIG,
				"%ux%u pixels make more than %zu of the request's pictures",
				is.width, is.height, SERVE_PICTURE_PIXELS);
	}
	if (r == 0 && !ask->takes_long && ask->picture_pixels > SERVE_PIXELS_AT_ONCE)
		return mlr_fail(err, EAGAIN, "large pictures are decoded elsewhere");
	if (r == 0)
		r = image_read_bytes(bytes, len, &model->input, to, err);
	if (r == -EPROTO)
		err->code = EINVAL;
	return r < 0 ? mlr_wrap(err, "a picture") : 0;
}

/* EVP_DecodeBlock() takes blocks of four characters and counts the padding's bytes. */
static int in_base64(const json_t *text, struct serve_ask *ask, uint8_t *to, struct mlr_error *err)
{
	const char *s = json_string_value(text);
	size_t n = json_string_length(text);
	auto_free unsigned char *bytes = malloc(n + 4);
	int len = -1;

	if (!bytes)
		return mlr_fail(err, ENOMEM, "no memory for a picture");
	if (n && n % 4 == 0)
		len = EVP_DecodeBlock(bytes, (const unsigned char *)s, (int)n);
	if (len < 0 || s[0] == '=')
		return mlr_fail(err, EINVAL, "a picture is not in base64");
	for (size_t i = n; i > n - 2 && s[i - 1] == '='; i--)
		len--;
	return serve_values_picture(bytes, (size_t)len, ask, to, err);
}

struct grid {
	size_t dim[3], step[3]; /* step: between neighbours in the image's bytes */
	int rank;
};

static int is_grid(const struct grid *g, const json_t *v)
{
	for (int i = 0; i < g->rank; i++, v = json_array_get(v, 0))
		if (!json_is_array(v) || json_array_size(v) != g->dim[i])
			return 0;
	return !json_is_array(v);
}

static int fill(
	const struct grid *g, int depth, const json_t *v, uint8_t *to, struct mlr_error *err)
{
	if (depth == g->rank)
		return one_number(v, to, err);
	if (!json_is_array(v) || json_array_size(v) != g->dim[depth])
		return mlr_fail(err, EINVAL, "an image's rows differ in length");
	for (size_t i = 0; i < g->dim[depth]; i++)
		TRY(fill(g, depth + 1, json_array_get(v, i), to + i * g->step[depth], err));
	return 0;
}

static int numbers(
	const json_t *v, const struct serve_model *model, uint8_t *to, struct mlr_error *err)
{
	size_t c = model->input.channels, h = model->input.height, w = model->input.width;
	const struct grid grids[] = {
		{ { c * h * w }, { 1 }, 1 },
		{ { c, h, w }, { h * w, w, 1 }, 3 },
		{ { h, w, c }, { w, 1, h * w }, 3 },
		{ { h, w }, { w, 1 }, c == 1 ? 2 : 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(grids); i++)
		if (grids[i].rank && is_grid(&grids[i], v))
			return fill(&grids[i], 0, v, to, err);
	return mlr_fail(
		err, EINVAL, "an image is not %zu numbers, nor %zux%zux%zu", c * h * w, c, h, w);
}

int serve_values_image(const json_t *v, struct serve_ask *ask, uint8_t *to, struct mlr_error *err)
{
	const json_t *b64 = json_object_get(v, "b64");

	if (json_is_string(v))
		return in_base64(v, ask, to, err);
	if (json_is_string(b64) && json_object_size(v) == 1)
		return in_base64(b64, ask, to, err);
	if (json_is_array(v))
		return numbers(v, ask->model, to, err);
	return mlr_fail(err, EINVAL,
		"an image is neither numbers nor {\"b64\": \"…\"}, a PNG or JPEG in base64");
}

int serve_ask_images(struct serve_ask *ask, size_t rows, struct mlr_error *err)
{
	size_t size;

	if (rows == 0)
		return mlr_fail(err, EINVAL, "no images");
	if (rows > (size_t)ask->rows_max)
		return mlr_fail(err, EFBIG, "%zu images are more than %d", rows, ask->rows_max);
	size = rows * ask->model->pixels;
	if (http_memory_take(ask->memory, size) < 0)
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
		http_memory_give(ask->memory, ask->taken);
	ask->taken = ask->picture_pixels = 0;
	ask->rows = ask->n_outputs = 0;
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

	if ((int64_t)cost > ask->memory->memory_max)
		return mlr_fail(err, EFBIG, "the JSON's values would take %zu bytes", cost);
	if (http_memory_take(ask->memory, cost) < 0)
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
	http_memory_give(ask->memory, ask->parsed);
	ask->parsed = 0;
}

int serve_reply_json(struct http_reply *ret, json_t *value, struct mlr_error *err)
{
	ret->body = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(value);
	if (!ret->body)
		return mlr_fail(err, ENOMEM, "no memory for the answer");
	ret->len = strlen(ret->body);
	ret->type = "application/json";
	return 0;
}

json_t *serve_reply_error(const char *text)
{
	return json_pack("{s:o}", "error", mlr_json_text(text));
}

int serve_values_images(const json_t *images, struct serve_ask *ask,
	const json_t *(*one)(const json_t *item), const char *what, struct mlr_error *err)
{
	TRY(serve_ask_images(ask, json_array_size(images), err));
	for (size_t i = 0; i < json_array_size(images); i++) {
		const json_t *item = json_array_get(images, i);

		if (serve_values_image(one ? one(item) : item, ask,
			    ask->images + i * ask->model->pixels, err) < 0)
			return mlr_wrap(err, "%s %zu", what, i);
	}
	return 0;
}
