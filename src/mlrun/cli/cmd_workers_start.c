/* mlrun workers start: starts containers on nodes of the cluster, or here. */
#include "cli/cli.h"
#include "cli/exec_options.h"
#include "cli/fetch.h"
#include "cli/options.h"
#include "cli/workers.h"

#include "base/cleanup.h"
#include "base/config_value.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKERS_MAX 10000 /* a mistyped number shall not flood a cluster */

struct args {
	struct cli_exec x;
	struct strv words, sbatch; /* exec's options in their long form; sbatch's */
	long n, gpus;
	int64_t deadline; /* seconds from now; 0: none */
	const char *partition, *name;
	int local, json;
};

static void parse_n(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->n = cli_options_number(arg, 1, WORKERS_MAX);
	if (a->n < 0)
		argp_error(state, "-n takes a number of workers from 1 to %d, not '%s'",
			WORKERS_MAX, arg);
}

static void parse_gpus(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->gpus = cli_options_number(arg, 0, 1024);
	if (a->gpus < 0)
		argp_error(state, "--gpus takes a number of GPUs for each worker, not '%s'", arg);
}

static void parse_deadline(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->deadline = cli_parse_age(arg);
	if (a->deadline <= 0)
		argp_error(state, "--deadline takes a time such as 90s, 30m, 12h or 2d, not '%s'",
			arg);
}

static const struct cli_option options[] = {
	{ NULL, 0, NULL, 0, "Workers:", -2 },
	{ "number", 'n', "N", 0, "start N of them (default: 1)", -2, CLI_TO_CALL(parse_n) },
	{ "gpus", 0, "N", 0, "GPUs for each (default: 0)", -2, CLI_TO_CALL(parse_gpus) },
	{ "partition", 'p', "NAME", 0, "Slurm's partition (default: Slurm's)", -2,
		CLI_TO(struct args, partition) },
	{ "deadline", 0, "TIME", 0, "end them after TIME, 90s, 30m, 12h, 2d, even if they wait", -2,
		CLI_TO_CALL(parse_deadline) },
	{ "name", 0, "NAME", 0, "a name for people (default: the image's)", -2,
		CLI_TO(struct args, name) },
	{ "sbatch", 0, "OPTION", 0, "one more option for sbatch: --sbatch=--qos=high", -2,
		CLI_TO(struct args, sbatch) },
	{ "local", 0, NULL, 0, "on this machine, even if there is Slurm", -2,
		CLI_TO(struct args, local) },
	{ "json", 0, NULL, 0, "print JSON; the man page lists its keys", -2,
		CLI_TO(struct args, json) },
	{ 0 },
};

/* Of exec's options, which its own container limits, these are the whole worker's. */
static void keep_word(void *args, const char *name, const char *arg)
{
	struct args *a = args;

	if (strcmp(name, "cpus") == 0 || strcmp(name, "memory") == 0)
		return;
	if (arg)
		strv_addf(&a->words, "--%s=%s", name, arg);
	else
		strv_addf(&a->words, "--%s", name);
}

/* --- checks ------------------------------------------------------------------------------- */

static int read_limits(const struct exec_options *o, struct worker *w, struct mlr_error *err)
{
	char *end = NULL;
	double cpus = o->cpus ? strtod(o->cpus, &end) : 1;
	int r = o->memory ? config_bytes(o->memory, &w->memory) : 0;

	if (end && (end == o->cpus || *end || !(cpus > 0 && cpus <= 65536)))
		return mlr_fail(err, EINVAL,
			"--cpus takes a number of processors for each worker, not '%s'", o->cpus);
	w->cpus = (long)cpus + (cpus > (double)(long)cpus);
	if (r == -ERANGE)
		return mlr_fail(
			err, EINVAL, "--memory=%s: more than machines have, or nothing", o->memory);
	if (r < 0 || (w->memory && w->memory < 1 << 20))
		return mlr_fail(err, EINVAL,
			"--memory takes an amount for each worker, 512m or 4g, not '%s'",
			o->memory);
	return 0;
}

static int refuse_options(const struct cli_exec *x, struct mlr_error *err)
{
	const struct exec_options *o = &x->exec;

	if (x->explain) {
		mlr_fail(err, EINVAL, "--explain runs nothing");
		return mlr_hint(err, "mlrun exec --explain takes the same options and image");
	}
	if (o->join || !o->image)
		return mlr_fail(err, EINVAL, "--join: a worker is a new container");
	if (o->preserve_fds > 0 || o->keep_fds.n > 0)
		return mlr_fail(err, EINVAL,
			"--preserve-fds, --preserve-fd: a worker inherits no descriptors");
	return 0;
}

/* Bring a missing image now: nodes may have no way out, and one fetch serves all workers. */
static int bring_image(const struct args *a)
{
	auto_call(store_image_done) struct store_image im = STORE_IMAGE_INIT;
	const struct exec_options *o = &a->x.exec;
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (!cli_can_fetch(o->image))
		return 0;
	r = cli_find_image(o->image, o->store, &im, &err);
	if (r == 0)
		return 0;
	if (r != -ENOENT || o->pull == EXEC_PULL_NEVER)
		return cli_fail_at(&err, "workers start '%s'", o->image);
	return cli_pull(o->image, o->store, a->x.common.quiet);
}

/* --- start -------------------------------------------------------------------------------- */

static int fill(const struct args *a, struct worker *w, struct mlr_error *err)
{
	const struct exec_options *o = &a->x.exec;
	int r = read_limits(o, w, err);

	w->image = xstrdup(o->image);
	w->name = xstrdup(a->name ? a->name : o->image);
	w->partition = a->partition ? xstrdup(a->partition) : NULL;
	w->gpus = a->gpus;
	w->deadline = a->deadline ? time(NULL) + a->deadline : 0;
	for (size_t i = 0; i < a->words.n; i++)
		strv_add(&w->options, a->words.v[i]);
	for (char *const *s = o->command; s && *s; s++)
		strv_add(&w->command, *s);
	return r;
}

static int start_all(
	const struct args *a, struct store *st, struct worker_list *l, struct mlr_error *err)
{
	int r = 0;

	for (long i = 0; r == 0 && i < a->n; i++) {
		struct worker w = WORKER_INIT;

		r = fill(a, &w, err);
		if (r == 0)
			r = work_start(st, a->local, &w, &a->sbatch, err);
		if (r < 0) {
			worker_done(&w);
			break;
		}
		l->v = xgrow(l->v, l->n, sizeof(*l->v));
		l->v[l->n++] = w;
	}
	return r;
}

/* All or none: what a failed start had begun is ended. */
static void take_back(struct store *st, struct worker_list *l)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (l->n > 0 && work_stop(st, l, &err) < 0)
		mlr_log_failure(MLR_WARNING, &err, "; mlrun workers list shows what is left");
}

static void tell_limits(const struct worker_list *l)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (work_limits_check(&l->v[0], &err) < 0)
		mlr_log_failure(MLR_WARNING, &err, ", so nothing keeps a worker to its memory");
}

static int print(const struct args *a, const struct store *st, const struct worker_list *l)
{
	if (a->json)
		return workers_print(st, l, 1);
	for (size_t i = 0; i < l->n; i++)
		printf("%s\n", l->v[i].id);
	return 0;
}

static int start(const struct args *a)
{
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = WORKER_LIST_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r = refuse_options(&a->x, &err);

	if (r < 0)
		return cli_fail_at(&err, "workers start");
	status = bring_image(a);
	if (status != 0)
		return status;
	r = store_open(a->x.common.store, 1, &st, &err);
	if (r == 0)
		r = start_all(a, st, &l, &err);
	if (r < 0) {
		take_back(st, &l);
		return cli_fail_at(&err, "workers start '%s'", a->x.exec.image);
	}
	tell_limits(&l);
	return print(a, st, &l);
}

int cmd_workers_start(int argc, char **argv)
{
	struct args a = { .n = 1 };
	int status;

	cli_exec_parse_with(argc, argv, options, keep_word, "IMAGE [--] [COMMAND [ARG...]]",
		"Start workers: containers of an image, each a job of Slurm's on one node, or a "
		"process here.\v"
		"Prints their ids. Without COMMAND a worker waits to be used by mlrun-rsh and "
		"mpirun; all steps on it share its container. --cpus and --memory are for each "
		"worker; the other options are those of mlrun exec.",
		&a.x);
	status = start(&a);
	strv_done(&a.words);
	strv_done(&a.sbatch);
	cli_exec_done(&a.x);
	return status;
}
