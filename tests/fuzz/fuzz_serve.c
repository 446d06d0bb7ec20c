/*
 * Fuzz target: what clients of mltrain serve send. The first byte says which parser reads the rest:
 * 's' the plain dialect's JSON, 'p' a picture as its body, '2' v2 with the length of the JSON in
 * two bytes, '1' TensorFlow Serving's JSON, 'u' a path, 'b' an image in base64. What is accepted is
 * answered, too.
 */
#include "base/cleanup.h"
#include "serve/routes.h"
#include "serve/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROWS    8
#define PIXELS  16
#define CLASSES 10

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_model(struct serve_model *m)
{
	memset(m, 0, sizeof(*m));
	strcpy(m->name, "fuzzed");
	m->version = 1;
	m->input = (struct image_size){ 1, 4, 4 };
	m->pixels = PIXELS;
	m->classes = CLASSES;
}

static void ask(const struct serve_dialect *dialect, const char *type, const char *body, size_t len,
	int64_t json_len)
{
	static const float logits[ROWS * CLASSES] = { 1, 2, 3 };
	struct http_use memory = { .memory_max = 1 << 16 };
	struct http_reply reply = HTTP_REPLY_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct serve_model model;
	struct serve_ask a = { .body = body,
		.len = len,
		.type = type,
		.json_len = json_len,
		.model = &model,
		.memory = &memory,
		.rows_max = ROWS };
	int r;

	make_model(&model);
	r = dialect->parse(&a, &err);
	serve_ask_parsed(&a);
	if ((r < 0) != (err.code != 0) || (r < 0 && !err.text[0]))
		abort(); /* a refusal says why */
	if (r == 0) {
		if (a.rows < 1 || a.rows > ROWS || dialect->write(&a, logits, &reply, &err) < 0)
			abort();
		if (reply.n_fields && (uint64_t)atoll(reply.fields[0].value) > reply.len)
			abort();
	} else {
		json_decref(dialect->fail(err.text));
	}
	free(reply.body);
	serve_ask_done(&a);
	if (memory.memory)
		abort(); /* what was taken is given back */
}

static void find_path(const char *path)
{
	const struct predictor_options use = { .batch = 1 };
	auto_call(serve_models_free) struct serve_models *models = serve_models_new(&use);
	struct serve_counts counts = { 0 };
	struct serve_context context = { models, &counts };
	struct mlr_error err = MLR_ERROR_INIT;
	struct serve_match match;
	int r = serve_routes_find(&context, path, SERVE_POST, &match, &err);

	if ((r != -ENOENT && r != -EPERM) || match.model)
		abort(); /* there is no model */
	if (!serve_routes_name(match.number) || (match.route && !match.methods))
		abort();
}

static void read_base64(const char *text, size_t len)
{
	json_auto_t *v = json_stringn(text, len);
	struct mlr_error err = MLR_ERROR_INIT;
	struct serve_model model;
	struct serve_ask ask = { .model = &model };
	uint8_t *pixels = malloc(PIXELS);

	make_model(&model);
	if (v && serve_values_image(v, &ask, pixels, &err) < 0 && !err.text[0])
		abort();
	free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *body = NULL;

	if (size < 3)
		return 0;
	body = malloc(size); /* a byte longer than the text, for a path's end */
	memcpy(body, data + 1, size - 1);
	body[size - 1] = '\0';
	if (data[0] == 's')
		ask(&serve_seed, "application/json", body, size - 1, -1);
	else if (data[0] == 'p')
		ask(&serve_seed, "image/png", body, size - 1, -1);
	else if (data[0] == '1')
		ask(&serve_tfs, "", body, size - 1, -1);
	else if (data[0] == '2')
		ask(&serve_v2, "", body + 2, size - 3, data[1] | data[2] << 8);
	else if (data[0] == 'u')
		find_path(body);
	else if (data[0] == 'b')
		read_base64(body, size - 1);
	return 0;
}
