#include "model/layer_file.h"

#include "base/base.h"
#include "base/spelling.h"
#include "model/fields.h"

#include <math.h>

#define KEYS_MAX 11
#define COMMON   "kind", "name", "from"

struct reader {
	const json_t *object;
	const struct layer_wish *wish;
	const struct layer *layers; /* [i] */
	size_t i;
	enum layer_init init;
	struct mlr_error *err;
};

static int count(const struct reader *r, const char *key, int *ret)
{
	long long v = *ret;
	int failed = fields_count(r->object, key, 0, INT_MAX, &v, r->err);

	*ret = (int)v;
	return failed;
}

static int number(const struct reader *r, const char *key, double min, double max, float *ret)
{
	double v = (double)*ret;
	int failed = fields_number(r->object, key, min, max, &v, r->err);

	*ret = (float)v;
	return failed;
}

static int wrong(const struct reader *r, const char *key, const char *wanted)
{
	auto_free char *shown = fields_shown(json_object_get(r->object, key));

	return mlr_fail(r->err, EINVAL, "'%s' must be %s, not %s", key, wanted, shown);
}

static int read_outputs(const struct reader *r, struct layer *l)
{
	const json_t *v = json_object_get(r->object, "outputs");

	if (!v)
		return mlr_fail(r->err, EINVAL, "'outputs' is missing: how many %s it has",
			l->kind == LAYER_CONV ? "filters" : "units");
	if (!json_is_string(v))
		return count(r, "outputs", &l->outputs);
	if (strcmp(json_string_value(v), "classes") != 0)
		return wrong(r, "outputs", "a whole number or \"classes\"");
	if (r->wish->classes < 1) {
		mlr_fail(r->err, EINVAL, "'outputs' is \"classes\", but how many is not known");
		return mlr_hint(r->err, "give the data set, --classes, or a number in its place");
	}
	l->outputs = r->wish->classes;
	return 0;
}

/* Read "bias": the initial value, or false for no biases. */
static int read_bias(const struct reader *r, struct layer *l)
{
	const json_t *v = json_object_get(r->object, "bias");

	if (!v || json_is_number(v))
		return number(r, "bias", -1e6, 1e6, &l->bias);
	if (!json_is_false(v))
		return wrong(r, "bias", "a number, what biases begin as, or false for none");
	l->no_bias = 1;
	return 0;
}

static int read_init(struct reader *r, struct layer *l)
{
	static const char *const words[] = { "he", "xavier", "zero" };
	static const char *const keys[] = { "normal" };
	const json_t *v = json_object_get(r->object, "init");
	double sigma = -1;
	size_t which = 0;
	int failed;

	if (!json_is_object(v)) {
		failed = fields_word(r->object, "init", words, ARRAY_LEN(words), &which, r->err);
		r->init = which == 0 ? INIT_HE : which == 1 ? INIT_XAVIER : INIT_ZERO;
		return failed;
	}
	if ((failed = fields_known(v, keys, ARRAY_LEN(keys), "'init'", r->err)) < 0 ||
		(failed = fields_number(v, "normal", 0, 1e6, &sigma, r->err)) < 0)
		return failed;
	if (sigma < 0)
		return wrong(r, "init", "{\"normal\": SIGMA}, \"he\", \"xavier\" or \"zero\"");
	r->init = INIT_NORMAL;
	l->sigma = (float)sigma;
	return 0;
}

static int read_pad(const struct reader *r, struct layer *l)
{
	const json_t *v = json_object_get(r->object, "pad");
	const char *word = json_string_value(v);

	if (!json_is_string(v))
		return count(r, "pad", &l->pad);
	if (strcmp(word, "valid") == 0)
		return 0;
	if (strcmp(word, "same") != 0)
		return wrong(r, "pad", "a whole number, \"same\" or \"valid\"");
	if (l->size % 2 == 0)
		return mlr_fail(r->err, EINVAL,
			"'pad' is \"same\", which needs an odd 'size', not %d", l->size);
	l->pad = (l->size - 1) / 2;
	return 0;
}

static int read_size(const struct reader *r, struct layer *l)
{
	if (!json_object_get(r->object, "size"))
		return mlr_fail(r->err, EINVAL, "'size' is missing: how many pixels wide and high");
	return count(r, "size", &l->size);
}

static int read_conv(struct reader *r, struct layer *l)
{
	int failed;

	l->stride = 1;
	if ((failed = read_outputs(r, l)) < 0 || (failed = read_size(r, l)) < 0 ||
		(failed = count(r, "stride", &l->stride)) < 0 || (failed = read_pad(r, l)) < 0 ||
		(failed = read_init(r, l)) < 0 || (failed = read_bias(r, l)) < 0)
		return failed;
	return number(r, "decay", 0, 1e6, &l->decay);
}

static int read_dense(struct reader *r, struct layer *l)
{
	int failed;

	if ((failed = read_outputs(r, l)) < 0 || (failed = read_init(r, l)) < 0 ||
		(failed = read_bias(r, l)) < 0)
		return failed;
	return number(r, "decay", 0, 1e6, &l->decay);
}

static int read_pool(struct reader *r, struct layer *l)
{
	int failed = read_size(r, l);

	if (failed < 0)
		return failed;
	l->stride = l->size;
	return count(r, "stride", &l->stride);
}

static int read_dropout(struct reader *r, struct layer *l)
{
	int failed;

	l->rate = 0.5f;
	failed = number(r, "rate", 0, 1, &l->rate);
	if (r->wish->dropout >= 0)
		l->rate = (float)r->wish->dropout;
	return failed;
}

/* Batch norm's statistics are those of all ranks, as PyTorch's SyncBatchNorm has them, or else of
 * each rank's rows, as its BatchNorm2d in DistributedDataParallel. */
static int read_batchnorm(struct reader *r, struct layer *l)
{
	const json_t *sync = json_object_get(r->object, "sync");
	int failed;

	if (sync && !json_is_boolean(sync))
		return wrong(r, "sync",
			"true, to normalise over all ranks, or false, over each rank's rows");
	l->own_rows = json_is_false(sync);

	l->epsilon = 1e-5f;
	l->momentum = 0.1f;
	if ((failed = number(r, "epsilon", 0, 1, &l->epsilon)) < 0 ||
		(failed = number(r, "momentum", 0, 1, &l->momentum)) < 0)
		return failed;
	return number(r, "decay", 0, 1e6, &l->decay);
}

/* Find the earlier layer of this name. */
static int find_layer(const struct reader *r, const char *key, const char *name, int *ret)
{
	struct spelling near = spelling_of(name, strlen(name));

	if (strcmp(name, "input") == 0) {
		*ret = LAYER_INPUT;
		return 0;
	}
	for (size_t i = 0; i < r->i; i++) {
		if (strcmp(r->layers[i].name, name) == 0) {
			*ret = (int)i;
			return 0;
		}
		spelling_try(&near, r->layers[i].name);
	}
	mlr_fail(
		r->err, EINVAL, "'%s' is '%.40s', but no layer before it has that name", key, name);
	return near.near ? mlr_hint(r->err, "is '%s' meant?", near.near) : -EINVAL;
}

static int read_add(struct reader *r, struct layer *l)
{
	const char *with = NULL;
	int failed = fields_text(r->object, "with", LAYER_NAME_MAX - 1, &with, r->err);

	if (failed < 0)
		return failed;
	if (!with)
		return mlr_fail(
			r->err, EINVAL, "'with' is missing: the layer whose output is added");
	return find_layer(r, "with", with, &l->with);
}

static int read_nothing(struct reader *r, struct layer *l)
{
	(void)r;
	(void)l;
	return 0;
}

/* In the order of enum layer_kind. */
static const struct kind {
	const char *keys[KEYS_MAX];
	int (*read)(struct reader *r, struct layer *l);
} kinds[LAYER_KINDS] = {
	[LAYER_CONV] = { { COMMON, "outputs", "size", "stride", "pad", "init", "bias", "decay" },
		read_conv },
	[LAYER_RELU] = { { COMMON }, read_nothing },
	[LAYER_MAXPOOL] = { { COMMON, "size", "stride" }, read_pool },
	[LAYER_DENSE] = { { COMMON, "outputs", "init", "bias", "decay" }, read_dense },
	[LAYER_DROPOUT] = { { COMMON, "rate" }, read_dropout },
	[LAYER_AVGPOOL] = { { COMMON, "size", "stride" }, read_pool },
	[LAYER_GLOBALPOOL] = { { COMMON }, read_nothing },
	[LAYER_BATCHNORM] = { { COMMON, "epsilon", "momentum", "decay", "sync" }, read_batchnorm },
	[LAYER_ADD] = { { COMMON, "with" }, read_add },
};

static int read_kind(const json_t *object, enum layer_kind *ret, struct mlr_error *err)
{
	const char *words[LAYER_KINDS];
	size_t which = LAYER_KINDS;

	for (size_t i = 0; i < LAYER_KINDS; i++)
		words[i] = layer_kind_name((enum layer_kind)i);
	TRY(fields_word(object, "kind", words, LAYER_KINDS, &which, err));
	if (which == LAYER_KINDS)
		return mlr_fail(err, EINVAL, "'kind' is missing: conv, relu, maxpool, …");
	*ret = (enum layer_kind)which;
	return 0;
}

static int is_given(const json_t *array, const char *name)
{
	const json_t *o;
	size_t k;

	json_array_foreach((json_t *)array, k, o) {
		const char *s = json_string_value(json_object_get(o, "name"));

		if (s && strcmp(s, name) == 0)
			return 1;
	}
	return 0;
}

/* Make a name of the kind and the layer's number among its kind, or the next unused number. */
static void make_name(
	const json_t *array, struct layer_names *names, enum layer_kind kind, char *name)
{
	do
		snprintf(name, LAYER_NAME_MAX, "%s%d", layer_kind_name(kind), ++names->used[kind]);
	while (is_given(array, name));
}

static int read_name(const json_t *array, const json_t *object, struct layer_names *names,
	struct layer *l, struct mlr_error *err)
{
	const char *name = NULL;

	TRY(fields_text(object, "name", LAYER_NAME_MAX - 1, &name, err));
	if (name) {
		names->used[l->kind]++;
		snprintf(l->name, sizeof(l->name), "%s", name);
	} else {
		make_name(array, names, l->kind, l->name);
	}
	return 0;
}

static int read_from(const struct reader *r, struct layer *l)
{
	const char *from = NULL;
	int failed = fields_text(r->object, "from", LAYER_NAME_MAX - 1, &from, r->err);

	l->from = (int)r->i - 1; /* the one before it, or LAYER_INPUT */
	if (failed < 0 || !from)
		return failed;
	return find_layer(r, "from", from, &l->from);
}

static int read_layer(struct reader *r, struct layer *l)
{
	char whose[64];
	int failed;

	snprintf(whose, sizeof(whose), "a %s layer", layer_kind_name(l->kind));
	if ((failed = fields_known(r->object, kinds[l->kind].keys, KEYS_MAX, whose, r->err)) < 0 ||
		(failed = read_from(r, l)) < 0)
		return failed;
	return kinds[l->kind].read(r, l);
}

int layer_parse(const json_t *array, size_t i, const struct layer_wish *wish,
	struct layer_names *names, struct layer *layers, enum layer_init *init,
	struct mlr_error *err)
{
	const json_t *object = json_array_get(array, i);
	struct reader r = { object, wish, layers, i, INIT_ZERO, err };
	struct layer l = { .from = LAYER_INPUT };

	if (!json_is_object(object))
		return mlr_fail(err, EINVAL, "layer %zu must be an object, {...}", i + 1);
	if (read_kind(object, &l.kind, err) < 0 || read_name(array, object, names, &l, err) < 0)
		return mlr_wrap(err, "layer %zu", i + 1);
	if (read_layer(&r, &l) < 0)
		return mlr_wrap(err, "layer %zu '%s'", i + 1, l.name);
	layers[i] = l;
	*init = r.init;
	return 0;
}

float layer_init_sigma(const struct layer *l, enum layer_init init)
{
	double kernel = l->kind == LAYER_CONV ? (double)l->size * l->size : 1;
	double in = l->weights ? (double)l->weights / l->outputs : 1; /* fan-in */

	if (init == INIT_HE)
		return (float)sqrt(2 / in);
	if (init == INIT_XAVIER)
		return (float)sqrt(2 / (in + l->outputs * kernel));
	return init == INIT_NORMAL ? l->sigma : 0;
}

/* Find the shortest decimal that reads as this float: files have 0.1, not 0.100000001. */
static json_t *real(float v)
{
	char text[32];

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)v);
		if (strtof(text, NULL) == v)
			break;
	}
	return json_real(strtod(text, NULL));
}

static const char *name_of(const struct layer *layers, int which)
{
	return which < 0 ? "input" : layers[which].name;
}

static void put_weights(json_t *o, const struct layer *l)
{
	json_object_set_new(o, "init", json_pack("{s:o}", "normal", real(l->sigma)));
	json_object_set_new(o, "bias", l->no_bias ? json_false() : real(l->bias));
}

json_t *layer_json(const struct layer *layers, size_t i)
{
	const struct layer *l = &layers[i];
	const char *const *keys = kinds[l->kind].keys;
	json_t *o = json_object();

	json_object_set_new(o, "kind", json_string(layer_kind_name(l->kind)));
	json_object_set_new(o, "name", json_string(l->name));
	json_object_set_new(o, "from", json_string(name_of(layers, l->from)));
	for (size_t k = 3; k < KEYS_MAX && keys[k]; k++) {
		const char *key = keys[k];

		if (strcmp(key, "with") == 0)
			json_object_set_new(o, key, json_string(name_of(layers, l->with)));
		if (strcmp(key, "outputs") == 0)
			json_object_set_new(o, key, json_integer(l->outputs));
		if (strcmp(key, "size") == 0)
			json_object_set_new(o, key, json_integer(l->size));
		if (strcmp(key, "stride") == 0)
			json_object_set_new(o, key, json_integer(l->stride));
		if (strcmp(key, "pad") == 0)
			json_object_set_new(o, key, json_integer(l->pad));
		if (strcmp(key, "init") == 0)
			put_weights(o, l);
		if (strcmp(key, "rate") == 0)
			json_object_set_new(o, key, real(l->rate));
		if (strcmp(key, "epsilon") == 0)
			json_object_set_new(o, key, real(l->epsilon));
		if (strcmp(key, "momentum") == 0)
			json_object_set_new(o, key, real(l->momentum));
		if (strcmp(key, "sync") == 0 && l->own_rows)
			json_object_set_new(o, key, json_false());
		if (strcmp(key, "decay") == 0)
			json_object_set_new(o, key, real(l->decay));
	}
	return o;
}
