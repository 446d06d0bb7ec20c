#include "serve/routes.h"

#include "base/json.h"
#include "config.h"
#include "report/html.h"

/* --- the page at "/": draw a digit or drop a picture ------------------------------------------ */

/* Make the page, self-contained, as its policy tells browsers; to free(). */
static char *page(void)
{
	auto_free char *hash = html_script_hash(serve_page_js);

	return xasprintf(
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"img-src data: blob:; connect-src 'self'; style-src 'unsafe-inline'; script-src "
		"'sha256-%s'; base-uri 'none'; form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<link rel=\"icon\" href=\"data:,\">\n"
		"<title>mltrain serve</title>\n<style>\n%s</style>\n</head>\n<body>\n"
		"<h1>What does it show?</h1>\n"
		"<p>Draw, or drop a PNG or JPEG here. A drawing is white on black, as the digits of "
		"MNIST are.</p>\n"
		"<main>\n<div>\n<canvas id=\"pad\" width=\"280\" height=\"280\" tabindex=\"0\" "
		"aria-label=\"a square to draw on\"></canvas>\n<p>"
		"<button id=\"clear\">Clear</button> <label>Picture <input id=\"file\" type=\"file\" "
		"accept=\"image/png,image/jpeg\"></label></p>\n"
		"<p id=\"login\" hidden><label>Token <input id=\"token\" type=\"password\" "
		"autocomplete=\"off\"></label></p>\n</div>\n"
		"<table aria-live=\"polite\"><tbody id=\"answer\"></tbody></table>\n</main>\n"
		"<p id=\"note\" role=\"status\"></p>\n<script>%s</script>\n</body>\n</html>\n",
		hash, serve_page_css, serve_page_js);
}

/* --- answers ---------------------------------------------------------------------------------- */

static int get_page(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	ret->body = page();
	ret->type = "text/html; charset=utf-8";
	ret->len = strlen(ret->body);
	return 0;
}

static int get_metrics(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	ret->body = serve_counts_text(c->counts, serve_routes_name);
	if (!ret->body)
		return mlr_fail(err, ENOMEM, "no memory for the metrics");
	ret->type = "text/plain; version=0.0.4; charset=utf-8";
	ret->len = strlen(ret->body);
	return 0;
}

static int check_draining(struct serve_context *c, struct mlr_error *err)
{
	return atomic_load(&c->counts->http.ending)
		? mlr_fail(err, ESHUTDOWN, "the server is ending")
		: 0;
}

static int get_health(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	TRY(check_draining(c, err));
	return serve_reply_json(ret, json_pack("{s:s}", "status", "healthy"), err);
}

static int get_live(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	return serve_reply_json(ret, json_pack("{s:b}", "live", 1), err);
}

static int get_ready(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	TRY(check_draining(c, err));
	return serve_reply_json(ret, json_pack("{s:b}", "ready", 1), err);
}

static int get_server(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	return serve_reply_json(ret,
		json_pack("{s:s, s:s, s:[s]}", "name", "mltrain", "version", PACKAGE_VERSION,
			"extensions", "binary_tensor_data"),
		err);
}

static json_t *output_info(const struct serve_v2_output *o, const struct serve_model *model)
{
	return json_pack("{s:s, s:s, s:o}", "name", o->name, "datatype", o->datatype, "shape",
		o->by_class ? json_pack("[i, i]", -1, model->classes) : json_pack("[i]", -1));
}

static int get_v2_model(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	const struct image_size *in = &model->input;

	return serve_reply_json(ret,
		json_pack("{s:s, s:[s], s:s, s:[{s:s, s:s, s:[i, i, i, i]}], s:o}", "name",
			model->name, "versions", model->version_text, "platform", "mltrain",
			"inputs", "name", "images", "datatype", "UINT8", "shape", -1,
			(int)in->channels, (int)in->height, (int)in->width, "outputs",
			MLR_JSON_LIST(i, SERVE_OUTPUTS, output_info(&serve_v2_outputs[i], model))),
		err);
}

static int get_tfs_status(struct serve_context *c, struct serve_model *model,
	struct http_reply *ret, struct mlr_error *err)
{
	return serve_reply_json(ret,
		json_pack("{s:[{s:s, s:s, s:{s:s, s:s}}]}", "model_version_status", "version",
			model->version_text, "state", "AVAILABLE", "status", "error_code", "OK",
			"error_message", ""),
		err);
}

/* A tensor of a signature: TensorFlow's TensorInfo as JSON. */
static json_t *tensor_info(const char *name, const char *dtype, const int *dim, int rank)
{
	return json_pack("{s:s, s:s, s:{s:o, s:b}}", "name", name, "dtype", dtype, "tensor_shape",
		"dim",
		MLR_JSON_LIST(i, rank,
			json_pack("{s:o, s:s}", "size", json_sprintf("%d", dim[i]), "name", "")),
		"unknown_rank", 0);
}

static int get_tfs_metadata(struct serve_context *c, struct serve_model *model,
	struct http_reply *ret, struct mlr_error *err)
{
	const int in[] = { -1, (int)model->input.channels, (int)model->input.height,
		(int)model->input.width };
	const int out[] = { -1, model->classes };
	json_t *signature;

	signature = json_pack("{s:{s:o}, s:{s:o}, s:s}", "inputs", "images",
		tensor_info("images", "DT_UINT8", in, 4), "outputs", "probabilities",
		tensor_info("probabilities", "DT_FLOAT", out, 2), "method_name",
		"tensorflow/serving/predict");
	return serve_reply_json(ret,
		json_pack("{s:{s:s, s:s, s:s}, s:{s:{s:{s:o}}}}", "model_spec", "name", model->name,
			"signature_name", "", "version", model->version_text, "metadata",
			"signature_def", "signature_def", "serving_default", signature),
		err);
}

static int refuse_method(struct serve_context *c, struct serve_model *model, struct http_reply *ret,
	struct mlr_error *err)
{
	return mlr_fail(err, ENOTSUP,
		":classify and :regress take tf.Example, which is not supported: use :predict");
}

/* --- paths ------------------------------------------------------------------------------------ */

#define V1 "/v1/models/{m}"
#define V2 "/v2/models/{m}"

static const struct serve_route routes[] = {
	{ "/", SERVE_GET, 1, &serve_seed, get_page },
	{ "/health", SERVE_GET, 1, &serve_seed, get_health },
	{ "/predict", SERVE_POST, 0, &serve_seed, NULL },
	{ "/metrics", SERVE_GET, 0, &serve_v2, get_metrics },
	{ "/v2", SERVE_GET, 0, &serve_v2, get_server },
	{ "/v2/health/live", SERVE_GET, 1, &serve_v2, get_live },
	{ "/v2/health/ready", SERVE_GET, 1, &serve_v2, get_ready },
	{ V2, SERVE_GET, 0, &serve_v2, get_v2_model },
	{ V2 "/ready", SERVE_GET, 0, &serve_v2, get_ready },
	{ V2 "/infer", SERVE_POST, 0, &serve_v2, NULL },
	{ V2 "/versions/{v}", SERVE_GET, 0, &serve_v2, get_v2_model },
	{ V2 "/versions/{v}/ready", SERVE_GET, 0, &serve_v2, get_ready },
	{ V2 "/versions/{v}/infer", SERVE_POST, 0, &serve_v2, NULL },
	{ V1, SERVE_GET, 0, &serve_tfs, get_tfs_status },
	{ V1 "/metadata", SERVE_GET, 0, &serve_tfs, get_tfs_metadata },
	{ V1 ":predict", SERVE_POST, 0, &serve_tfs, NULL },
	{ V1 ":classify", SERVE_POST, 0, &serve_tfs, refuse_method },
	{ V1 ":regress", SERVE_POST, 0, &serve_tfs, refuse_method },
	{ V1 "/versions/{v}", SERVE_GET, 0, &serve_tfs, get_tfs_status },
	{ V1 "/versions/{v}/metadata", SERVE_GET, 0, &serve_tfs, get_tfs_metadata },
	{ V1 "/versions/{v}:predict", SERVE_POST, 0, &serve_tfs, NULL },
	{ V1 "/versions/{v}:classify", SERVE_POST, 0, &serve_tfs, refuse_method },
	{ V1 "/versions/{v}:regress", SERVE_POST, 0, &serve_tfs, refuse_method },
};
#define N_ROUTES ((int)ARRAY_LEN(routes))

_Static_assert(ARRAY_LEN(routes) < SERVE_ROUTES_MAX, "a count for each route and for no route");

/* A part of a path, in place. */
struct piece {
	const char *at;
	size_t len;
};

/* Compare a path with a pattern and fill in its parts: [0] for {m}, [1] for {v}. */
static int is_like(const char *path, const char *pattern, struct piece parts[2])
{
	while (*pattern) {
		if (*pattern == '{') {
			struct piece *p = &parts[pattern[1] == 'v'];

			*p = (struct piece){ path, strcspn(path, "/:") };
			path += p->len;
			pattern += 3;
		} else if (*path++ != *pattern++) {
			return 0;
		}
	}
	return *path == '\0';
}

static int take_model(struct serve_context *c, const struct piece parts[2], struct serve_match *ret,
	struct mlr_error *err)
{
	const char *version;

	ret->model = serve_models_take(c->models, parts[0].at, parts[0].len);
	if (!ret->model)
		return mlr_fail(err, ENOENT, "there is no model of that name");
	version = ret->model->version_text;
	if (parts[1].at &&
		(strlen(version) != parts[1].len ||
			memcmp(version, parts[1].at, parts[1].len) != 0))
		return mlr_fail(err, ENOENT, "the model's version is %s", version);
	return 0;
}

int serve_routes_find(struct serve_context *c, const char *path, unsigned method,
	struct serve_match *ret, struct mlr_error *err)
{
	struct piece parts[2] = { { NULL, 0 } };

	*ret = (struct serve_match){ 0 };
	for (int i = 0; i < N_ROUTES; i++) {
		struct piece found[2] = { { NULL, 0 } };

		if (!is_like(path, routes[i].path, found))
			continue;
		ret->methods |= routes[i].method;
		if (!ret->route || routes[i].method == method) {
			ret->route = &routes[i];
			ret->number = i + 1;
			memcpy(parts, found, sizeof(parts));
		}
	}
	if (!ret->route)
		return mlr_fail(err, ENOENT, "there is no such path");
	if (!(ret->methods & method))
		return mlr_fail(err, EPERM, "the path has not this method");
	return take_model(c, parts, ret, err);
}

const char *serve_routes_name(int number)
{
	return number == 0 ? "other" : number <= N_ROUTES ? routes[number - 1].path : NULL;
}
