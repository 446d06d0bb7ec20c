#include "model/checkpoint_meta.h"

#include "base/json.h"
#include "base/record.h"
#include "config.h"
#include "model/net_file.h"

#define TEXT_OF(value) mlr_json_print(value, JSON_COMPACT | JSON_REAL_PRECISION(17))

static int read_dtype(const struct record_reader *r, const json_t *v, void *to)
{
	int found = json_is_string(v) ? dtype_find(json_string_value(v)) : -1;

	if (found < 0)
		return record_expected(r, "a known type", v);
	*(enum dtype *)to = (enum dtype)found;
	return 0;
}

static json_t *write_dtype(const void *from)
{
	return json_string(dtype_name(*(const enum dtype *)from));
}

#define AT(member) RECORD_AT(struct checkpoint, member)

static const struct record_row state_rows[] = {
	{ "epochs_done", RECORD_NUMBER, AT(epochs_done), .max = 1000000000 },
	{ "step", RECORD_NUMBER, AT(step) },
	{ "seed", RECORD_NUMBER, AT(seed) },
	{ "batch", RECORD_NUMBER, AT(batch), .min = 1 },
	{ "ranks", RECORD_NUMBER, AT(ranks), .min = 1 },
	{ "threads", RECORD_NUMBER, AT(threads) },
	{ "dtype", RECORD_OWN, AT(dtype), .read = read_dtype, .write = write_dtype },
	{ "seconds", RECORD_REAL, AT(seconds), .most = 1e18 },
	{ "best_error", RECORD_REAL, AT(best_error), .most = 1, .flags = RECORD_NULL, .none = -1 },
	{ "digest", RECORD_TEXT, AT(digest), .flags = RECORD_SPARE },
	{ NULL },
};

/* --- making ------------------------------------------------------------------- */

/* Add an entry, taking the value. NULL adds nothing. */
static void add_take(struct checkpoint_meta *m, const char *key, char *value)
{
	if (value)
		m->entries[m->n++] = (struct metadata){ (char *)key, value };
}

static void add(struct checkpoint_meta *m, const char *key, const char *value)
{
	add_take(m, key, value ? xstrdup(value) : NULL);
}

static json_t *floats(const float *v, int n)
{
	return MLR_JSON_LIST(i, n, json_real((double)v[i]));
}

static char *names_text(const struct checkpoint *c)
{
	json_t *a = json_array();

	for (int i = 0; c->names && i < c->net->classes; i++) {
		json_t *name = json_string(c->names[i]);

		/* A directory's name may not be UTF-8; then at least its number is kept. */
		json_array_append_new(a, name ? name : json_sprintf("%d", i));
	}
	return TEXT_OF(a);
}

void checkpoint_meta_make(const struct checkpoint *c, struct checkpoint_meta *ret)
{
	int channels = c->net->input.dim[0];
	struct checkpoint_meta m = { .n = 0 };
	char digest[PARTS_DIGEST_SIZE];

	add_take(&m, "net", net_text(c->net));
	add_take(&m, "norm",
		TEXT_OF(json_pack("{s:o, s:o}", "mean", floats(c->norm.mean, channels), "scale",
			floats(c->norm.scale, channels))));
	add_take(&m, "classes", names_text(c));
	parts_digest(c->net, (float *[BLOCKS]){ c->params, c->states }, digest);
	add(&m, "weights", digest);
	add_take(&m, "state", TEXT_OF(record_write(state_rows, c)));
	add(&m, "recipe", c->recipe);
	add(&m, "backend", c->backend);
	add(&m, "data", c->data);
	add(&m, "version", PACKAGE_VERSION);
	*ret = m;
}

void checkpoint_meta_done(struct checkpoint_meta *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->entries[i].value);
	m->n = 0;
}

/* --- reading ------------------------------------------------------------------ */

/* Parse a metadata value as JSON of this type. */
static int parse(const struct safetensors *st, const char *key, json_type type, json_t **ret,
	struct mlr_error *err)
{
	const char *text = safetensors_meta(st, key);
	json_error_t why;

	if (!text)
		return mlr_fail(err, EPROTO, "its metadata lack '%s': it is not mltrain's", key);
	*ret = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!*ret)
		return mlr_fail(err, EPROTO, "its metadata's '%s' is not JSON: %s (byte %d)", key,
			why.text, why.position);
	if (json_typeof(*ret) != type)
		return mlr_fail(err, EPROTO, "its metadata's '%s' is not %s", key,
			type == JSON_ARRAY ? "an array" : "an object");
	return 0;
}

static int read_norm(const json_t *norm, struct checkpoint *c, struct mlr_error *err)
{
	const json_t *mean = json_object_get(norm, "mean"), *scale = json_object_get(norm, "scale");
	size_t channels = (size_t)c->net->input.dim[0];

	if (channels > IMAGE_CHANNELS_MAX)
		return mlr_fail(err, EPROTO, "its network reads images of %zu channels; at most %d",
			channels, IMAGE_CHANNELS_MAX);
	if (json_array_size(mean) != channels || json_array_size(scale) != channels)
		return mlr_fail(err, EPROTO,
			"its metadata's 'norm' has no mean and scale of each of %zu channels",
			channels);
	for (size_t i = 0; i < channels; i++) {
		double m = json_number_value(json_array_get(mean, i));
		double s = json_number_value(json_array_get(scale, i));

		if (!isfinite((float)m) || !isfinite((float)s) || fabs(s) < 1e-6)
			return mlr_fail(
				err, EPROTO, "its metadata have no possible number for 'norm'");
		c->norm.mean[i] = (float)m;
		c->norm.scale[i] = (float)s;
	}
	return 0;
}

static int read_names(const json_t *names, struct checkpoint *c, struct mlr_error *err)
{
	size_t n = json_array_size(names);

	if (n != 0 && n != (size_t)c->net->classes)
		return mlr_fail(err, EPROTO,
			"its metadata name %zu classes where the network has %d", n,
			c->net->classes);
	for (size_t i = 0; i < n; i++)
		if (!json_is_string(json_array_get(names, i)))
			return mlr_fail(
				err, EPROTO, "its metadata's 'classes' are not all strings");
	if (n == 0)
		return 0;
	c->names = xcalloc(n, sizeof(*c->names));
	for (size_t i = 0; i < n; i++)
		c->names[i] = xstrdup(json_string_value(json_array_get(names, i)));
	return 0;
}

static int read_values(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err)
{
	const struct record_reader r = { .manner = RECORD_ALL, .err = err };
	json_auto_t *norm = NULL, *names = NULL, *state = NULL;

	TRY(parse(st, "norm", JSON_OBJECT, &norm, err));
	TRY(read_norm(norm, c, err));
	TRY(parse(st, "classes", JSON_ARRAY, &names, err));
	TRY(read_names(names, c, err));
	TRY(parse(st, "state", JSON_OBJECT, &state, err));
	return record_read(&r, state_rows, state, c) < 0 ? mlr_wrap(err, "its metadata's 'state'")
							 : 0;
}

static int make_net(const struct safetensors *st, struct net **ret, struct mlr_error *err)
{
	const char *text = safetensors_meta(st, "net");

	if (!text)
		return mlr_fail(err, EPROTO, "its metadata lack 'net': it is not mltrain's");
	if (strlen(text) > NET_FILE_MAX)
		return mlr_fail(err, EPROTO, "its network's description has %zu bytes; at most %zu",
			strlen(text), NET_FILE_MAX);
	return net_parse(text, strlen(text), "metadata", NULL, ret, NULL, err);
}

static char *copy(const struct safetensors *st, const char *key)
{
	const char *value = safetensors_meta(st, key);

	return value ? xstrdup(value) : NULL;
}

int checkpoint_meta_read(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err)
{
	TRY(make_net(st, &c->net, err));
	TRY(read_values(st, c, err));
	c->backend = copy(st, "backend");
	c->data = copy(st, "data");
	c->version = copy(st, "version");
	c->recipe = copy(st, "recipe");
	return 0;
}
