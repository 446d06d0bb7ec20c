/* mltrain eval: how a checkpoint does on a data set's test images. */
#include "trainer/mltrain.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "trainer/backend/backend.h"
#include "trainer/data/dataset.h"
#include "trainer/model/checkpoint.h"
#include "trainer/train/cpus.h"
#include "trainer/train/evaluate.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH_MAX 1024

struct args {
	const char *data, *checkpoint;
	const struct backend *backend;
	int threads;
};

enum { KEY_CHECKPOINT = 256, KEY_BACKEND };

static const struct argp_option options[] = { { "checkpoint", KEY_CHECKPOINT, "FILE", 0,
						      "the weights that mltrain train wrote", 1 },
	{ "data", 'd', "DIR", 0,
		"the data set: a directory of IDX files, or mnist or fashion-mnist", 1 },
	{ "threads", 't', "N", 0, "that compute (as many as CPUs may be used)", 2 },
	{ "backend", KEY_BACKEND, "NAME", 0, "onednn, reference or auto (auto)", 2 }, { 0 } };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case KEY_CHECKPOINT:
		a->checkpoint = arg;
		return 0;
	case 'd':
		a->data = arg;
		return 0;
	case 't':
		a->threads = (int)arg_count(state, "threads", arg, 1, 1024);
		return 0;
	case KEY_BACKEND:
		a->backend = backend_find(arg);
		if (!a->backend)
			argp_error(state, "--backend '%s' is not one of: auto, %s", arg,
				backend_names());
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option; the weights are given with --checkpoint",
			arg);
		return 0;
	case ARGP_KEY_END:
		if (!a->checkpoint)
			argp_error(state, "which weights? give --checkpoint FILE");
		if (!a->data)
			argp_error(state,
				"which data set? give --data DIR, --data mnist or --data fashion-mnist");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options, parse, NULL,
	"Test a checkpoint: the share of a data set's test images that the network names rightly."
};

static int check(
	const struct args *a, const struct net *net, const struct dataset *d, struct mlr_error *err)
{
	if (net->input.dim[0] != 1 || (uint32_t)net->input.dim[1] != d->height ||
		(uint32_t)net->input.dim[2] != d->width)
		return mlr_fail(err, EINVAL,
			"checkpoint '%s' reads images of %dx%d but '%s' has %ux%u", a->checkpoint,
			net->input.dim[1], net->input.dim[2], d->dir, d->height, d->width);
	if (d->classes > net->classes)
		return mlr_fail(err, EINVAL,
			"checkpoint '%s' tells %d classes apart but '%s' has a label %d",
			a->checkpoint, net->classes, d->dir, d->classes - 1);
	return 0;
}

static int run(const struct args *a, int64_t *wrong, uint32_t *count, struct mlr_error *err)
{
	auto_call(dataset_done) struct dataset data = DATASET_INIT;
	auto_call(net_free) struct net *net = NULL;
	auto_free float *params = NULL;
	auto_call(engine_close) struct engine *engine = NULL;
	struct checkpoint_info info;
	struct engine_config config;
	int r;

	if ((r = checkpoint_read(a->checkpoint, &net, &params, &info, err)) < 0 ||
		(r = dataset_load(a->data, DATASET_TEST, &data, err)) < 0 ||
		(r = check(a, net, &data, err)) < 0)
		return r;
	/* The batch of training makes the arithmetic the same as that of its own test; but a stranger's
	 * file must not order memory at will. */
	config = (struct engine_config){ info.batch < BATCH_MAX ? info.batch : BATCH_MAX, a->threads };
	r = net_check_batch(net, config.batch, err);
	if (r < 0)
		return r;
	r = a->backend->open(net->layers, net->n, &config, &engine, err);
	if (r < 0)
		return r;
	engine->backend->set(engine, ENGINE_PARAMS, params);
	*wrong = evaluate(engine, net->classes, data.test.images, data.test.labels, data.test.count,
		shape_count(&net->input), NULL);
	*count = data.test.count;
	return 0;
}

int cmd_eval(int argc, char **argv)
{
	struct args a = { .backend = backend_find("auto"), .threads = cpus_available("") };
	struct mlr_error err = MLR_ERROR_INIT;
	char name[] = "mltrain eval";
	int64_t wrong = 0;
	uint32_t count = 0;

	argv[0] = name;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (run(&a, &wrong, &count, &err) < 0)
		return main_fail(&err);
	print_accuracy(wrong, count);
	return 0;
}
