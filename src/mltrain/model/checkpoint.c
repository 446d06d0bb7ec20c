#include "model/checkpoint.h"

#include "config.h"
#include "model/checkpoint_meta.h"
#include "tensor/safetensors.h"

#include <jansson.h>

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

	if ((r = safetensors_parse(buf, len, &st, err)) < 0 ||
		(r = checkpoint_meta_read(&st, &c, err)) < 0 ||
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
