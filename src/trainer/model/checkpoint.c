#include "trainer/model/checkpoint.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "config.h"
#include "trainer/tensor/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECKPOINT_MAX ((size_t)2 << 30) /* bytes of a file that is read */

#define NAME_MAX_ (LAYER_NAME_MAX + sizeof(".weight"))

int checkpoint_probe(const char *path, struct mlr_error *err)
{
	auto_free char *probe = xasprintf("%s.%ld.probe", path, (long)getpid());
	auto_close int fd = -1;
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "checkpoint '%s' is %s, not a file", path,
			S_ISDIR(st.st_mode) ? "a directory" : "something special");
	fd = open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		mlr_fail_errno(
			err, "checkpoint '%s' can't be written: create a file beside it", path);
		return mlr_hint(
			err, "give --checkpoint a path in a directory that exists and is yours");
	}
	unlink(probe);
	return 0;
}

/* One tensor of a layer, its name kept in name; without params a tensor that has a shape only. */
static struct tensor tensor_of(const struct layer *l, int is_bias, const float *params, char *name)
{
	snprintf(name, NAME_MAX_, "%s.%s", l->name, is_bias ? "bias" : "weight");
	return (struct tensor){ name, is_bias ? shape1(l->outputs) : layer_weight_shape(l),
		params ? params + (is_bias ? l->bias_at : l->weight_at) : NULL };
}

int checkpoint_write(const char *path, const struct net *net, const float *params,
	const struct checkpoint_info *info, struct mlr_error *err)
{
	auto_free char *epoch = xasprintf("%d", info->epoch),
		       *step = xasprintf("%" PRIu64, info->step);
	auto_free char *seed = xasprintf("%" PRIu64, info->seed),
		       *batch = xasprintf("%d", info->batch);
	auto_free char *mean = xasprintf("%g", INPUT_MEAN), *scale = xasprintf("%g", INPUT_SCALE);
	char input[SHAPE_TEXT_MAX];
	struct metadata meta[] = {
		{ "net", (char *)net->name },
		{ "input", shape_text(&net->input, input) },
		{ "mean", mean },
		{ "scale", scale },
		{ "epoch", epoch },
		{ "step", step },
		{ "seed", seed },
		{ "batch", batch },
		{ "backend", (char *)info->backend },
		{ "data", (char *)info->data },
		{ "version", PACKAGE_VERSION },
	};
	auto_free struct tensor *tensors = xcalloc(2 * net->n, sizeof(*tensors));
	auto_free char *names = xcalloc(2 * net->n, NAME_MAX_), *buf = NULL;
	struct safetensors st = { tensors, 0, meta, ARRAY_LEN(meta) };
	size_t len;
	int r;

	for (size_t i = 0; i < 2 * net->n; i++) {
		if (layer_has_params(&net->layers[i / 2]))
			tensors[st.n++] = tensor_of(
				&net->layers[i / 2], i % 2, params, names + i * NAME_MAX_);
	}
	r = safetensors_build(&st, &buf, &len, err);
	if (r < 0)
		return mlr_wrap(err, "write checkpoint '%s'", path);
	r = file_replace(AT_FDCWD, path, buf, len, 0666, err);
	return r < 0 ? mlr_wrap(err, "write checkpoint '%s'", path) : 0;
}

static int number(const struct safetensors *st, const char *key, uint64_t max, uint64_t *ret,
	struct mlr_error *err)
{
	const char *s = safetensors_meta(st, key);
	char *end;
	uint64_t v;

	if (!s)
		return mlr_fail(err, EPROTO, "its metadata lack '%s': it is not mltrain's", key);
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || v > max)
		return mlr_fail(err, EPROTO,
			"its metadata say '%.40s' for '%s', which is no number up to %" PRIu64, s,
			key, max);
	*ret = v;
	return 0;
}

static int read_info(
	const struct safetensors *st, struct checkpoint_info *ret, struct mlr_error *err)
{
	uint64_t epoch, batch;
	int r;

	*ret = (struct checkpoint_info){ 0 };
	if ((r = number(st, "epoch", 1000000000, &epoch, err)) < 0 ||
		(r = number(st, "batch", 1000000, &batch, err)) < 0 ||
		(r = number(st, "step", UINT64_MAX - 1, &ret->step, err)) < 0 ||
		(r = number(st, "seed", UINT64_MAX - 1, &ret->seed, err)) < 0)
		return r;
	if (batch == 0)
		return mlr_fail(err, EPROTO, "its metadata say '0' for 'batch'");
	ret->epoch = (int)epoch;
	ret->batch = (int)batch;
	return 0;
}

/* The network that the metadata name, with the input they say and the classes of its last layer. */
static int make_net(const struct safetensors *st, struct net **ret, struct mlr_error *err)
{
	const char *name = safetensors_meta(st, "net"), *input = safetensors_meta(st, "input");
	const struct tensor *last = safetensors_find(st, "fc2.bias");
	struct shape in = { 3, { 0, 0, 0, 1 } };
	int used = 0;

	if (!name || !input)
		return mlr_fail(err, EPROTO, "its metadata lack '%s': it is not mltrain's",
			name ? "input" : "net");
	if (strcmp(name, "convolutional") != 0)
		return mlr_fail(err, ENOTSUP,
			"its network '%.40s' is not known; only 'convolutional' is", name);
	if (sscanf(input, "%5dx%5dx%5d%n", &in.dim[0], &in.dim[1], &in.dim[2], &used) != 3 ||
		input[used])
		return mlr_fail(err, EPROTO,
			"its metadata say '%.40s' for 'input', which is no CxHxW", input);
	if (!last || last->shape.rank != 1)
		return mlr_fail(err, EPROTO, "tensor 'fc2.bias' is missing or is not a row");
	return net_reference(in, last->shape.dim[0], 0.5f, ret, err);
}

static int load_tensor(
	const struct safetensors *st, const struct tensor *want, struct mlr_error *err)
{
	const struct tensor *got = safetensors_find(st, want->name);
	char a[SHAPE_TEXT_MAX], b[SHAPE_TEXT_MAX];

	if (!got)
		return mlr_fail(err, EPROTO, "tensor '%s' is missing", want->name);
	if (memcmp(&got->shape, &want->shape, sizeof(got->shape)) != 0)
		return mlr_fail(err, EPROTO, "tensor '%s' is %s where the network needs %s",
			want->name, shape_text(&got->shape, a), shape_text(&want->shape, b));
	if (want->data)
		memcpy((void *)want->data, got->data, shape_count(&got->shape) * sizeof(float));
	return 0;
}

/* Copy every tensor into params, or with NULL only check that they are there. */
static int load_tensors(const struct safetensors *st, const struct net *net, float *params,
	struct mlr_error *err)
{
	size_t found = 0;
	int r;

	for (size_t i = 0; i < 2 * net->n; i++) {
		char name[NAME_MAX_];
		struct tensor t;

		if (!layer_has_params(&net->layers[i / 2]))
			continue;
		t = tensor_of(&net->layers[i / 2], i % 2, params, name);
		r = load_tensor(st, &t, err);
		if (r < 0)
			return r;
		found++;
	}
	if (st->n > found)
		return mlr_fail(err, EPROTO, "it holds %zu tensors where network '%s' has %zu",
			st->n, net->name, found);
	return 0;
}

static int read_buffer(const char *buf, size_t len, struct net **net, float **params,
	struct checkpoint_info *info, struct mlr_error *err)
{
	auto_call(safetensors_done) struct safetensors st = SAFETENSORS_INIT;
	auto_call(net_free) struct net *n = NULL;
	auto_free float *p = NULL;
	int r;

	if ((r = safetensors_parse(buf, len, &st, err)) < 0 || (r = make_net(&st, &n, err)) < 0 ||
		(r = read_info(&st, info, err)) < 0)
		return r;
	/* Checked first: only what the file really holds gets memory. */
	r = load_tensors(&st, n, NULL, err);
	if (r < 0)
		return r;
	p = malloc(n->params * sizeof(float));
	if (!p)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", n->params * sizeof(float));
	load_tensors(&st, n, p, NULL);
	*net = take_ptr(&n);
	*params = take_ptr(&p);
	return 0;
}

int checkpoint_read(const char *path, struct net **net, float **params,
	struct checkpoint_info *info, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t len;
	int r;

	r = file_read(AT_FDCWD, path, CHECKPOINT_MAX, &buf, &len, err);
	if (r < 0)
		return mlr_wrap(err, "checkpoint");
	r = read_buffer(buf, len, net, params, info, err);
	return r < 0 ? mlr_wrap(err, "checkpoint '%s'", path) : 0;
}
