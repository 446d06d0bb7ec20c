/*
 * The plainest dialect: POST /predict {"images": [image, …]}, or a picture as the body, answered
 * with every class' label and score: {"predictions": [[{"label": "7", "score": 0.98}, …], …]}. The
 * answers and failures have the form that FastAPI gives them.
 */
#include "serve/ask.h"

#include "base/json.h"

static int parse(struct serve_ask *ask, struct mlr_error *err)
{
	json_auto_t *body = NULL;
	const json_t *images;
	const char *key;
	json_t *value;

	if (serve_ask_is_picture(ask)) {
		TRY(serve_ask_images(ask, 1, err));
		return serve_values_picture(ask->body, ask->len, ask, ask->images, err);
	}
	body = serve_ask_json(ask, ask->len, err);
	if (!body)
		return -err->code;
	images = json_object_get(body, "images");
	if (!json_is_array(images))
		return mlr_fail(err, EINVAL, "the field \"images\", an array, is missing");
	json_object_foreach(body, key, value)
		if (value != images)
			return mlr_fail(err, EINVAL, "extra fields not permitted: \"%s\"", key);
	return serve_values_images(images, ask, NULL, "image", err);
}

static int write_answer(
	struct serve_ask *ask, const float *logits, struct http_reply *ret, struct mlr_error *err)
{
	const struct serve_model *m = ask->model;
	auto_free double *p = xcalloc((size_t)m->classes, sizeof(*p));
	json_t *all = json_array();

	for (int i = 0; i < ask->rows; i++) {
		char buf[12];

		predictor_probabilities(logits + (size_t)i * (size_t)m->classes, m->classes, p);
		json_array_append_new(all,
			MLR_JSON_LIST(k, m->classes,
				json_pack("{s:o, s:f}", "label",
					mlr_json_text(predictor_class(&m->predictor, k, buf)),
					"score", p[k])));
	}
	return serve_reply_json(ret, json_pack("{s:o}", "predictions", all), err);
}

static json_t *fail(const char *text)
{
	return json_pack("{s:[{s:[s], s:o, s:s}]}", "detail", "loc", "body", "msg",
		mlr_json_text(text), "type", "value_error");
}

const struct serve_dialect serve_seed = { 422, parse, write_answer, fail };
