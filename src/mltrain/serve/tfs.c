/*
 * TensorFlow Serving's REST API: v1/models/M:predict (tensorflow.org/tfx/serving/api_rest), in the
 * row format, "instances", and the column format, "inputs". The answer is the probabilities.
 */
#include "serve/ask.h"

#include "base/json.h"

#define INPUT "images" /* the only one's name, which may be left out */

/* An instance or the inputs: the value itself, or {"images": value}. */
static const json_t *unwrap(const json_t *v)
{
	const json_t *named = json_object_get(v, INPUT);

	return named && json_object_size(v) == 1 ? named : v;
}

static int check_fields(const json_t *body, struct mlr_error *err)
{
	const char *signature = json_string_value(json_object_get(body, "signature_name"));
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)body, key, value)
		if (strcmp(key, "signature_name") != 0 && strcmp(key, "instances") != 0 &&
			strcmp(key, "inputs") != 0)
			return mlr_fail(err, EINVAL, "unknown field \"%s\"", key);
	if (json_object_get(body, "signature_name") &&
		(!signature || (*signature && strcmp(signature, "serving_default") != 0)))
		return mlr_fail(err, EINVAL, "the only signature is \"serving_default\"");
	return 0;
}

static int parse(struct serve_ask *ask, struct mlr_error *err)
{
	json_auto_t *body = serve_ask_json(ask, ask->len, err);
	const json_t *rows, *columns, *images;

	if (!body)
		return -err->code;
	TRY(check_fields(body, err));
	rows = json_object_get(body, "instances");
	columns = json_object_get(body, "inputs");
	images = unwrap(rows ? rows : columns);
	if (!rows == !columns || !json_is_array(images))
		return mlr_fail(err, EINVAL,
			"the body has to have either \"instances\" or \"inputs\", an array of images");
	ask->by_columns = !rows;
	return serve_values_images(images, ask, unwrap, "instance", err);
}

static int write_answer(
	struct serve_ask *ask, const float *logits, struct http_reply *ret, struct mlr_error *err)
{
	int classes = ask->model->classes;
	auto_free double *p = xcalloc((size_t)classes, sizeof(*p));
	json_t *all = json_array();

	for (int i = 0; i < ask->rows; i++) {
		predictor_probabilities(logits + (size_t)i * (size_t)classes, classes, p);
		json_array_append_new(all, MLR_JSON_LIST(k, classes, json_real(p[k])));
	}
	return serve_reply_json(
		ret, json_pack("{s:o}", ask->by_columns ? "outputs" : "predictions", all), err);
}

const struct serve_dialect serve_tfs = { 400, parse, write_answer, serve_reply_error };
