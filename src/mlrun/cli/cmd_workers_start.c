/* mlrun workers start: starts containers on nodes of the cluster, or here. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/workers.h"

#include "work/batch.h"

#define WORKERS_MAX 10000 /* a mistyped number shall not flood a cluster */

struct args {
	struct workers_wish w;
	long n;
	int local, json;
};

static const struct option_row options[] = {
	{ NULL, 0, NULL, 0, "Workers:", -2 },
	{ "number", 'n', "N", 0, "start N of them (default: 1)", -2,
		OPT_COUNT(struct args, n, 1, WORKERS_MAX) },
	{ "gpus", 0, "N", 0, "GPUs for each (default: 0)", -2,
		OPT_COUNT(struct args, w.gpus, 0, 1024) },
	{ "partition", 'p', "NAME", 0, "Slurm's partition (default: Slurm's)", -2,
		OPT(struct args, w.partition) },
	{ "deadline", 0, "TIME", 0, "end them after TIME, 90s, 30m, 12h, 2d, even if they wait", -2,
		OPT_READ(struct args, w.deadline, workers_read_deadline, WORKERS_A_DEADLINE) },
	{ "name", 0, "NAME", 0, "a name for people (default: the image's)", -2,
		OPT(struct args, w.name) },
	{ "sbatch", 0, "OPTION", 0, "one more option for sbatch: --sbatch=--qos=high", -2,
		OPT(struct args, w.sbatch) },
	{ "local", 0, NULL, 0, "on this machine, even if there is Slurm", -2,
		OPT(struct args, local) },
	{ "json", 0, NULL, 0, "print JSON; the man page lists its keys", -2,
		OPT(struct args, json) },
	{ 0 },
};

/* --- start -------------------------------------------------------------------------------- */

static int start_all(
	const struct args *a, struct store *st, struct worker_list *l, struct mlr_error *err)
{
	int r = 0;

	for (long i = 0; r == 0 && i < a->n; i++) {
		struct worker w = WORKER_INIT;

		r = workers_fill(&a->w, &w, err);
		if (r == 0)
			r = work_start(st, a->local, &w, &a->w.sbatch, err);
		if (r < 0) {
			worker_done(&w);
			break;
		}
		*xadd(l->v, l->n) = w;
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
	auto_call(worker_list_done) struct worker_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r = workers_refuse_options(&a->w, &err);

	if (r < 0)
		return cli_fail_at(&err, "workers start");
	status = workers_bring_image(&a->w, a->local || !work_batch()->is_here(), "workers start");
	if (status != 0)
		return status;
	r = store_open(a->w.x.common.store, 1, &st, &err);
	if (r == 0 && !a->local)
		work_look_at_store(st, a->w.partition);
	if (r == 0)
		r = start_all(a, st, &l, &err);
	if (r < 0) {
		take_back(st, &l);
		return cli_fail_at(&err, "workers start '%s'", a->w.x.exec.image);
	}
	tell_limits(&l);
	return print(a, st, &l);
}

int cmd_workers_start(int argc, char **argv)
{
	static struct args a = { .n = 1 };

	cli_exec_parse_with(argc, argv, options, workers_keep_word, "IMAGE [--] [COMMAND [ARG...]]",
		"Start workers: containers of an image, each a job of Slurm's on one node, or a "
		"process here.\v"
		"Prints their ids. Without COMMAND a worker waits to be used by mlrun-rsh and "
		"mpirun; all steps on it share its container. --cpus and --memory are for each "
		"worker; the other options are those of mlrun exec.",
		&a.w.x);
	return start(&a);
}
