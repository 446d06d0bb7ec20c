/*
 * The Open Inference Protocol, version 2, over REST (KServe's predict-v2), with the binary tensor
 * data extension (Triton's extension_binary_data): tensors stand behind the JSON, whose length is
 * in the header Inference-Header-Content-Length.
 *
 * The one input is "images": numbers from 0 to 255 of any type of the table below, [n][c][h][w] or
 * flat, [n][c*h*w]; or BYTES, [n] or [n][1], each a PNG or JPEG (in JSON in base64). Outputs are
 * "probabilities", "logits" and "class"; if none is named, all.
 */

#include "base/json.h"
#include "serve/ask.h"

/* Numbers in binary are little-endian and need not be aligned. */
#define READ(name, type)                         \
	static double read_##name(const char *p) \
	{                                        \
		type v;                          \
		memcpy(&v, p, sizeof(v));        \
		return (double)v;                \
	}
READ(u8, uint8_t)
READ(i32, int32_t)
READ(i64, int64_t)
READ(f32, float)
READ(f64, double)

static const struct kind {
	const char *name;
	size_t size;
	double (*read)(const char *p);
} kinds[] = { { "UINT8", 1, read_u8 }, { "INT32", 4, read_i32 }, { "INT64", 8, read_i64 },
	{ "FP32", 4, read_f32 }, { "FP64", 8, read_f64 }, { "BYTES", 0, NULL } };

const struct serve_v2_output serve_v2_outputs[SERVE_OUTPUTS] = {
	[SERVE_PROBABILITIES] = { "probabilities", "FP32", 1 },
	[SERVE_LOGITS] = { "logits", "FP32", 1 },
	[SERVE_CLASS] = { "class", "INT64", 0 },
};

/* --- requests --------------------------------------------------------------------------------- */

static int check_shape(const struct serve_ask *ask, const json_t *shape, const struct kind *kind,
	size_t *rows, struct mlr_error *err)
{
	const struct image_size *in = &ask->model->input;
	const json_int_t want[] = { in->channels, in->height, in->width };
	json_int_t dim[4] = { 0 };
	size_t rank = json_array_size(shape);
	int ok;

	for (size_t i = 0; i < rank && i < 4; i++) {
		const json_t *d = json_array_get(shape, i);

		dim[i] = json_is_integer(d) ? json_integer_value(d) : -1;
	}
	if (!kind->read)
		ok = rank == 1 || (rank == 2 && dim[1] == 1);
	else
		ok = (rank == 2 && dim[1] == (json_int_t)ask->model->pixels) ||
			(rank == 4 && memcmp(dim + 1, want, sizeof(want)) == 0);
	if (!ok || dim[0] < 1)
		return mlr_fail(err, EINVAL,
			"the shape of \"images\" is not [n, %u, %u, %u], nor for BYTES [n]",
			in->channels, in->height, in->width);
	*rows = (size_t)dim[0];
	return 0;
}

static const struct kind *find_kind(const json_t *name)
{
	const char *s = json_string_value(name);

	for (size_t i = 0; s && i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, s) == 0)
			return &kinds[i];
	return NULL;
}

static int read_json(
	struct serve_ask *ask, const json_t *data, const struct kind *kind, struct mlr_error *err)
{
	size_t pixels = ask->model->pixels;

	if (kind->read)
		return serve_values_flat(data, (size_t)ask->rows * pixels, ask->images, err);
	if (json_array_size(data) != (size_t)ask->rows)
		return mlr_fail(err, EINVAL, "\"data\" has not as many elements as \"shape\" says");
	for (size_t i = 0; i < (size_t)ask->rows; i++) {
		const json_t *v = json_array_get(data, i);

		TRY(json_is_string(v) ? serve_values_image(v, ask, ask->images + i * pixels, err)
				      : mlr_fail(err, EINVAL, "BYTES in JSON are strings"));
	}
	return 0;
}

/* Each element is its length, four bytes, and as many bytes. */
static int read_elements(struct serve_ask *ask, const char *p, size_t size, struct mlr_error *err)
{
	for (size_t i = 0; i < (size_t)ask->rows; i++) {
		uint32_t len;

		if (size < sizeof(len))
			return mlr_fail(err, EINVAL, "BYTES end too early");
		memcpy(&len, p, sizeof(len));
		p += sizeof(len);
		size -= sizeof(len);
		if (size < len)
			return mlr_fail(err, EINVAL, "BYTES end too early");
		TRY(serve_values_picture(p, len, ask, ask->images + i * ask->model->pixels, err));
		p += len;
		size -= len;
	}
	return size ? mlr_fail(err, EINVAL, "BYTES have %zu bytes more", size) : 0;
}

static int read_binary(struct serve_ask *ask, const char *p, size_t size, const struct kind *kind,
	struct mlr_error *err)
{
	size_t n = (size_t)ask->rows * ask->model->pixels;

	if (!kind->read)
		return read_elements(ask, p, size, err);
	if (size != n * kind->size)
		return mlr_fail(err, EINVAL, "%zu bytes of %s where %zu are wanted", size,
			kind->name, n * kind->size);
	if (kind->size == 1) {
		memcpy(ask->images, p, n);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		TRY(serve_values_byte(kind->read(p + i * kind->size), &ask->images[i], err));
	}
	return 0;
}

static int read_input(struct serve_ask *ask, const json_t *input, const char *behind, size_t left,
	struct mlr_error *err)
{
	const char *name = json_string_value(json_object_get(input, "name"));
	const struct kind *kind = find_kind(json_object_get(input, "datatype"));
	const json_t *data = json_object_get(input, "data");
	const json_t *size =
		json_object_get(json_object_get(input, "parameters"), "binary_data_size");
	size_t rows = 0;

	if (!name || strcmp(name, "images") != 0)
		return mlr_fail(err, EINVAL, "the only input is called \"images\"");
	if (!kind)
		return mlr_fail(err, EINVAL,
			"the datatype of \"images\" is not UINT8, INT32, INT64, FP32, FP64 or BYTES");
	if (!data == !size)
		return mlr_fail(err, EINVAL,
			"\"images\" has to have either \"data\" or the parameter \"binary_data_size\"");
	TRY(check_shape(ask, json_object_get(input, "shape"), kind, &rows, err));
	TRY(serve_ask_images(ask, rows, err));
	if (data && left)
		return mlr_fail(err, EINVAL, "%zu bytes after the JSON belong to no input", left);
	if (data)
		return read_json(ask, data, kind, err);
	if (!json_is_integer(size) || json_integer_value(size) != (json_int_t)left)
		return mlr_fail(err, EINVAL,
			"\"binary_data_size\" is not the %zu bytes behind the JSON", left);
	return read_binary(ask, behind, left, kind, err);
}

static int read_output(
	struct serve_ask *ask, const json_t *output, int binary, struct mlr_error *err)
{
	const char *name = json_string_value(json_object_get(output, "name"));
	const json_t *parameters = json_object_get(output, "parameters");
	const json_t *own = json_object_get(parameters, "binary_data");

	if (json_object_get(parameters, "classification"))
		return mlr_fail(err, EINVAL, "the classification extension is not supported");
	for (int i = 0; name && i < SERVE_OUTPUTS; i++)
		if (strcmp(serve_v2_outputs[i].name, name) == 0) {
			for (int k = 0; k < ask->n_outputs; k++)
				if (ask->outputs[k] == (enum serve_output)i)
					return mlr_fail(err, EINVAL, "output \"%s\" twice", name);
			ask->binary[ask->n_outputs] = own ? json_is_true(own) : binary;
			ask->outputs[ask->n_outputs++] = (enum serve_output)i;
			return 0;
		}
	return mlr_fail(err, EINVAL, "outputs are called \"probabilities\", \"logits\", \"class\"");
}

static int read_outputs(struct serve_ask *ask, const json_t *body, struct mlr_error *err)
{
	const json_t *outputs = json_object_get(body, "outputs");
	int binary = json_is_true(
		json_object_get(json_object_get(body, "parameters"), "binary_data_output"));
	int r = 0;

	for (size_t i = 0; i < json_array_size(outputs) && r == 0; i++)
		r = read_output(ask, json_array_get(outputs, i), binary, err);
	for (int i = 0; !json_array_size(outputs) && i < SERVE_OUTPUTS; i++) {
		ask->outputs[i] = (enum serve_output)i;
		ask->binary[i] = binary;
		ask->n_outputs++;
	}
	return r;
}

static int parse(struct serve_ask *ask, struct mlr_error *err)
{
	size_t json = ask->json_len < 0 ? ask->len : (size_t)ask->json_len;
	json_auto_t *body = NULL;
	const json_t *inputs, *id;

	if (json > ask->len)
		return mlr_fail(err, EPROTO,
			"Inference-Header-Content-Length is more than the body's %zu bytes",
			ask->len);
	body = serve_ask_json(ask, json, err);
	if (!body)
		return -err->code;
	inputs = json_object_get(body, "inputs");
	if (json_array_size(inputs) != 1)
		return mlr_fail(err, EINVAL, "\"inputs\" has to have one element, \"images\"");
	id = json_object_get(body, "id");
	if (id && (!json_is_string(id) || json_string_length(id) >= SERVE_ID_MAX))
		return mlr_fail(
			err, EINVAL, "\"id\" is not a string of up to %d bytes", SERVE_ID_MAX - 1);
	if (id)
		memcpy(ask->id, json_string_value(id), json_string_length(id));
	TRY(read_outputs(ask, body, err));
	return read_input(ask, json_array_get(inputs, 0), ask->body + json, ask->len - json, err);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* An output's numbers: floats [rows][classes], or int64_t [rows]. To free(). */
static void *numbers_of(const struct serve_ask *ask, enum serve_output which, const float *logits)
{
	int n = ask->model->classes;
	size_t count = (size_t)ask->rows * (size_t)n;
	auto_free double *p = xcalloc((size_t)n, sizeof(*p));
	float *out = xcalloc(count, sizeof(int64_t));
	int64_t *class = (int64_t *)out;

	if (which == SERVE_LOGITS)
		memcpy(out, logits, count * sizeof(*out));
	for (int i = 0; which != SERVE_LOGITS && i < ask->rows; i++, logits += n) {
		predictor_probabilities(logits, n, p);
		for (int k = 0; which == SERVE_PROBABILITIES && k < n; k++)
			out[i * n + k] = (float)p[k];
		for (int k = 0; which == SERVE_CLASS && k < n; k++)
			if (p[k] > p[class[i]])
				class[i] = k;
	}
	return out;
}

static size_t count_of(const struct serve_ask *ask, enum serve_output which)
{
	return (size_t)ask->rows *
		(serve_v2_outputs[which].by_class ? (size_t)ask->model->classes : 1);
}

static json_t *data_of(const struct serve_ask *ask, enum serve_output which, const void *numbers)
{
	return MLR_JSON_LIST(i, count_of(ask, which),
		which == SERVE_CLASS ? json_integer(((const int64_t *)numbers)[i])
				     : json_real((double)((const float *)numbers)[i]));
}

static int write_answer(
	struct serve_ask *ask, const float *logits, struct http_reply *ret, struct mlr_error *err)
{
	json_t *outputs = json_array(), *body;
	auto_free char *binary = NULL;
	size_t size = 0;
	int r;

	for (int i = 0; i < ask->n_outputs; i++) {
		const struct serve_v2_output *o = &serve_v2_outputs[ask->outputs[i]];
		auto_free char *numbers = numbers_of(ask, ask->outputs[i], logits);
		size_t bytes = count_of(ask, ask->outputs[i]) * (o->by_class ? 4 : 8);
		json_t *one = json_pack("{s:s, s:s, s:[i]}", "name", o->name, "datatype",
			o->datatype, "shape", ask->rows);

		if (o->by_class)
			json_array_append_new(
				json_object_get(one, "shape"), json_integer(ask->model->classes));
		json_array_append_new(outputs, one);
		if (!ask->binary[i]) {
			json_object_set_new(one, "data", data_of(ask, ask->outputs[i], numbers));
			continue;
		}
		json_object_set_new(one, "parameters",
			json_pack("{s:I}", "binary_data_size", (json_int_t)bytes));
		binary = xreallocarray(binary, size + bytes, 1);
		memcpy(binary + size, numbers, bytes);
		size += bytes;
	}
	body = json_pack("{s:s, s:s, s:o}", "model_name", ask->model->name, "model_version",
		ask->model->version_text, "outputs", outputs);
	if (body && ask->id[0])
		json_object_set_new(body, "id", mlr_json_text(ask->id));
	r = serve_reply_json(ret, body, err);
	if (r < 0 || !size)
		return r;
	snprintf(ask->json_text, sizeof(ask->json_text), "%" PRIu64, ret->len);
	http_reply_add(ret, "Inference-Header-Content-Length", ask->json_text);
	ret->type = "application/octet-stream";
	ret->body = xreallocarray(ret->body, ret->len + size, 1);
	memcpy(ret->body + ret->len, binary, size);
	ret->len += size;
	return 0;
}

const struct serve_dialect serve_v2 = { 400, parse, write_answer, serve_reply_error };
