#include "model/checkpoint.h"

#include "base/json.h"
#include "base/record.h"
#include "config.h"
#include "model/net_file.h"

/* --- metadata ---------------------------------------------------------------------------- */

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

/* A class's name; its number where a directory's name is not UTF-8. */
static json_t *name_of(const char *name, int number)
{
	json_t *text = json_string(name);

	return text ? text : json_sprintf("%d", number);
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
	add_take(&m, "classes",
		TEXT_OF(MLR_JSON_LIST(i, c->names ? c->net->classes : 0, name_of(c->names[i], i))));
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

/* Set all of c but its blocks of floats from st's metadata. Returns 0, or -EPROTO for missing or
 * invalid metadata, -EINVAL for an invalid network. */
static int read_meta(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err)
{
	TRY(make_net(st, &c->net, err));
	TRY(read_values(st, c, err));
	c->backend = copy(st, "backend");
	c->data = copy(st, "data");
	c->version = copy(st, "version");
	c->recipe = copy(st, "recipe");
	return 0;
}

/* --- files ------------------------------------------------------------------------------- */

int checkpoint_check_size(const struct net *net, int optimiser, struct mlr_error *err)
{
	const size_t most = (CHECKPOINT_MAX - SAFETENSORS_HEADER_MAX - 8) / sizeof(float);

	if ((size_t)(1 + optimiser_states(optimiser)) * net->params + net->states <= most)
		return 0;
	return mlr_fail(err, EFBIG,
		"network '%s' has %zu parameters: its checkpoint would be larger than the %zu "
		"bytes that are read",
		net->name, net->params, CHECKPOINT_MAX);
}

int checkpoint_probe(const char *path, struct mlr_error *err)
{
	/* As long as the temporary name that file_replace() will use. */
	auto_free char *probe = xasprintf("%s.%016lx.tmp", path, (long)getpid());
	auto_close int fd = -1;
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "checkpoint '%s' is %s, not a file", path,
			S_ISDIR(st.st_mode) ? "a directory" : "something special");
	fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		mlr_fail_errno(
			err, "checkpoint '%s' can't be written: create a file beside it", path);
		return mlr_hint(err, "give a path in a directory that exists and is yours");
	}
	unlink(probe);
	return 0;
}

/* Count the parts that a layer may have in a file. */
static size_t parts_with(int states)
{
	return PART_KEPT + 2 * (size_t)states;
}

int checkpoint_write(const char *path, const struct checkpoint *c, struct mlr_error *err)
{
	float *blocks[BLOCKS] = { c->params, c->states };
	size_t parts = c->net->n * parts_with(c->kept[0] ? optimiser_states(c->optimiser) : 0);
	auto_free struct tensor *tensors = xcalloc(parts, sizeof(*tensors));
	auto_free char *names = xcalloc(parts, PART_NAME_SIZE), *buf = NULL;
	auto_call(checkpoint_meta_done) struct checkpoint_meta meta = { 0 };
	struct safetensors st = { .tensors = tensors };
	size_t len;

	memcpy(blocks + BLOCK_KEPT, c->kept, sizeof(c->kept));
	for (size_t i = 0; i < parts; i++)
		st.n += (size_t)part_of(&c->net->layers[i % c->net->n], (int)(i / c->net->n),
			c->optimiser, blocks, names + i * PART_NAME_SIZE, &tensors[st.n]);
	checkpoint_meta_make(c, &meta);
	st.meta = meta.entries;
	st.metas = meta.n;
	if (safetensors_build(&st, &buf, &len, err) < 0)
		return mlr_wrap(err, "write checkpoint '%s'", path);
	file_replace_sweep(AT_FDCWD, path); /* makes room before the disk must hold one more */
	return file_replace(AT_FDCWD, path, buf, len, 0666, err) < 0
		? mlr_wrap(err, "write checkpoint '%s'", path)
		: 0;
}

static int load_tensor(
	const struct safetensors *st, const struct tensor *want, int part, struct mlr_error *err)
{
	const struct tensor *got = safetensors_find(st, want->name);
	char a[SHAPE_TEXT_MAX], b[SHAPE_TEXT_MAX];

	if (!got)
		return mlr_fail(err, EPROTO, "tensor '%s' is missing", want->name);
	if (got->type != TENSOR_F32)
		return mlr_fail(err, ENOTSUP, "tensor '%s' is of type %s; checkpoints have F32",
			want->name, tensor_type_name(got->type));
	if (memcmp(&got->shape, &want->shape, sizeof(got->shape)) != 0)
		return mlr_fail(err, EPROTO, "tensor '%s' is %s where the network needs %s",
			want->name, shape_text(&got->shape, a), shape_text(&want->shape, b));
	if (!want->data)
		return part_check(got, part, err);
	memcpy((void *)want->data, got->data, shape_count(&got->shape) * sizeof(float));
	return 0;
}

/* Copy every tensor into its block. Where the block is NULL, only check that the tensor exists. */
static int load_tensors(const struct safetensors *st, const struct checkpoint *c, int states,
	float *const blocks[BLOCKS], struct mlr_error *err)
{
	const struct net *net = c->net;
	size_t parts = parts_with(states), found = 0;

	for (size_t i = 0; i < net->n * parts; i++) {
		int part = (int)(i / net->n);
		char name[PART_NAME_SIZE];
		struct tensor t;

		if (!part_of(&net->layers[i % net->n], part, c->optimiser, blocks, name, &t))
			continue;
		TRY(load_tensor(st, &t, part, err));
		found++;
	}
	if (st->n > found)
		return mlr_fail(err, EPROTO, "it holds %zu tensors where network '%s' has %zu",
			st->n, net->name, found);
	return 0;
}

static float *block_new(size_t floats)
{
	return malloc((floats ? floats : 1) * sizeof(float));
}

/* Does the recipe name this one? Several optimisers keep blocks of the same names. */
static int is_named(const char *recipe, const char *name)
{
	json_t *root = recipe ? json_loads(recipe, 0, NULL) : NULL;
	const char *word = json_string_value(json_object_get(root, "optimiser"));
	int r = word && strcmp(word, name) == 0;

	json_decref(root);
	return r;
}

static int has_block(const struct safetensors *st, const char *word)
{
	size_t len = word ? strlen(word) : 0;

	for (size_t i = 0; word && i < st->n; i++)
		if (strncmp(st->tensors[i].name, word, len) == 0 && st->tensors[i].name[len] == '/')
			return 1;
	return 0;
}

/* Find the optimiser whose blocks the file has. Sets *states to their number, 0 without any. */
static int find_optimiser(const struct safetensors *st, const char *recipe, int *states)
{
	int found = -1;

	for (int which = 0; which < OPTIMISERS; which++)
		if (has_block(st, optimisers[which].states[0]) &&
			(found < 0 || is_named(recipe, optimisers[which].name)))
			found = which;
	*states = found < 0 ? 0 : optimiser_states(found);
	return found < 0 ? OPTIMISER_SGD : found;
}

static int load_blocks(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err)
{
	float *none[BLOCKS] = { NULL }, *blocks[BLOCKS] = { NULL };
	int states, has_all = 1;

	c->optimiser = find_optimiser(st, c->recipe, &states);
	/* Check first: allocate only for tensors that the file really holds. */
	TRY(load_tensors(st, c, states, none, err));
	blocks[BLOCK_PARAMS] = c->params = block_new(c->net->params);
	blocks[BLOCK_STATES] = c->states = block_new(c->net->states);
	for (int i = 0; i < states; i++) {
		blocks[BLOCK_KEPT + i] = c->kept[i] = block_new(c->net->params);
		has_all = has_all && c->kept[i];
	}
	if (!c->params || !c->states || !has_all)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory",
			((size_t)(1 + states) * c->net->params + c->net->states) * sizeof(float));
	return load_tensors(st, c, states, blocks, err);
}

/* Files of version 0.2 have no digest to compare with. */
static int check_digest(const struct safetensors *st, struct checkpoint *c, struct mlr_error *err)
{
	const char *want = safetensors_meta(st, "weights");

	parts_digest(c->net, (float *[BLOCKS]){ c->params, c->states }, c->weights);
	if (!want || strcmp(want, c->weights) == 0)
		return 0;
	return mlr_fail(err, EBADMSG, "its weights are damaged: they are %s, and were %.80s",
		c->weights, want);
}

int checkpoint_parse(const char *buf, size_t len, struct checkpoint *ret, struct mlr_error *err)
{
	auto_call(safetensors_done) struct safetensors st = { 0 };
	auto_call(checkpoint_done) struct checkpoint c = { 0 };
	int r;

	if ((r = safetensors_parse(buf, len, &st, err)) < 0 || (r = read_meta(&st, &c, err)) < 0 ||
		(r = load_blocks(&st, &c, err)) < 0 || (r = check_digest(&st, &c, err)) < 0)
		return r;
	*ret = take_struct(&c, { 0 });
	return 0;
}

int checkpoint_read(const char *path, struct checkpoint *ret, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t len;
	int r;

	r = file_read(AT_FDCWD, path, CHECKPOINT_MAX, &buf, &len, err);
	if (r < 0)
		mlr_wrap(err, "checkpoint");
	if (r == -ENOENT)
		mlr_hint(err, "mltrain train --checkpoint FILE writes one");
	if (r < 0)
		return r;
	return checkpoint_parse(buf, len, ret, err) < 0 ? mlr_wrap(err, "checkpoint '%s'", path)
							: 0;
}

void checkpoint_done(struct checkpoint *c)
{
	for (int i = 0; c->names && i < c->net->classes; i++)
		free(c->names[i]);
	free(c->names);
	net_free(&c->net);
	free(c->params);
	for (int i = 0; i < OPTIMISER_STATES_MAX; i++)
		free(c->kept[i]);
	free(c->states);
	free(c->backend);
	free(c->data);
	free(c->version);
	free(c->digest);
	free(c->recipe);
	*c = (struct checkpoint){ 0 };
}
