/* mlrun elastic run, list, stop: runs that grow onto idle nodes and share them with others. */
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/options.h"
#include "cli/workers.h"

#include "base/json.h"
#include "base/proc.h"
#include "work/elastic.h"

#define HOLD_S    10
#define REQUEUE_S 60 /* the same when each change is a restart; and the time for saving a state */

/* --- run ---------------------------------------------------------------------------------- */

struct args {
	struct workers_wish w;
	long min, max, weight, hold, grace;
	int signal, json, is_one_job;
};

static const char *const modes[] = { "workers", "requeue", NULL };

static int read_signal(const char *text, void *field)
{
	*(int *)field = signal_number(text);
	return *(int *)field == SIGKILL || *(int *)field == SIGSTOP ? -EINVAL : *(int *)field;
}

static const struct option_row run_options[] = {
	{ NULL, 0, NULL, 0, "Elastic run:", -2 },
	{ "min", 0, "N", 0, "workers that it needs (default: 1)", -2,
		OPT_COUNT(struct args, min, 1, SHARE_MAX) },
	{ "max", 0, "N", 0, "workers that it can use (default: 4)", -2,
		OPT_COUNT(struct args, max, 1, SHARE_MAX) },
	{ "gpus-per-worker", 0, "N", 0, "GPUs for each worker (default: 1)", -2,
		OPT_COUNT(struct args, w.gpus, 0, SHARE_MAX) },
	{ "partition", 'p', "NAME", 0, "Slurm's partition (default: Slurm's)", -2,
		OPT(struct args, w.partition) },
	{ "weight", 0, "N", 0, "its share beside others' (default: 1)", -2,
		OPT_COUNT(struct args, weight, 1, SHARE_WEIGHT_MAX) },
	{ "hold", 0, "SECONDS", 0, "between growing and shrinking (default: 10; requeue: 60)", -2,
		OPT_COUNT(struct args, hold, 0, 3600) },
	{ "mode", 0, "MODE", 0,
		"workers that come and go, or requeue: one job that begins again (default: workers)",
		-2, OPT_WORD(struct args, is_one_job, modes) },
	{ "signal", 0, "NAME", 0, "requeue: tells the command to save its state (default: USR1)",
		-2,
		OPT_READ(struct args, signal, read_signal, "one that a program can catch, USR1") },
	{ "grace", 0, "SECONDS", 0, "requeue: how long it may take for that (default: 60)", -2,
		OPT_COUNT(struct args, grace, 1, 3600) },
	{ "deadline", 0, "TIME", 0, "end it after TIME, 90s, 30m, 12h, 2d, even if it waits", -2,
		OPT_READ(struct args, w.deadline, workers_read_deadline, WORKERS_A_DEADLINE) },
	{ "name", 0, "NAME", 0, "a name for people (default: the image's)", -2,
		OPT(struct args, w.name) },
	{ "sbatch", 0, "OPTION", 0, "one more option for sbatch: --sbatch=--qos=high", -2,
		OPT(struct args, w.sbatch) },
	{ "json", 0, NULL, 0, "print JSON; the man page lists its keys", -2,
		OPT(struct args, json) },
	{ 0 },
};

/* The workers of jobs that run, or wait. */
static char *workers_in(const struct elastic_run *run, const struct strv *jobs)
{
	long n = (long)jobs->n;

	if (elastic_is_one_job(run) && n > 0)
		n = run->workers;
	return xasprintf("%ld", n);
}

static void put(struct listing *l, const struct elastic_run *run, const char *meet)
{
	listing_text(l, "ID", "id", run->share.key);
	listing_text(l, "NAME", "name", run->wish.name);
	listing_text(l, "STATUS", "status", elastic_status_names[run->status]);
	listing_json(l, "running", mlr_json_texts(&run->running));
	listing_cell(l, "RUNNING", workers_in(run, &run->running));
	listing_json(l, "waiting", mlr_json_texts(&run->waiting));
	listing_cell(l, "WAITING", workers_in(run, &run->waiting));
	listing_text(l, NULL, "coordinator", run->running.n > 0 ? run->running.v[0] : NULL);
	listing_text(l, NULL, "rendezvous", meet);
	listing_number(l, "MIN", "min", run->share.min);
	listing_number(l, "MAX", "max", run->share.max);
	listing_number(l, "WEIGHT", "weight", run->share.weight);
	listing_text(l, "IMAGE", "image", run->wish.image);
	listing_json(l, "command", mlr_json_texts(&run->wish.command));
	listing_json(l, "options", mlr_json_texts(&run->wish.options));
	listing_text(l, NULL, "partition", run->wish.partition);
	listing_number(l, NULL, "hold", run->hold);
	listing_number(l, NULL, "gpus_per_worker", run->wish.gpus);
	listing_number(l, NULL, "cpus", run->wish.cpus);
	listing_text(l, NULL, "mode", elastic_is_one_job(run) ? "requeue" : "workers");
	listing_number(l, NULL, "workers", run->workers);
	listing_json(l, "suspended", mlr_json_texts(&run->suspended));
	listing_text(l, "REASON", "reason", run->reason);
	listing_optional(l);
}

static void put_row(struct listing *l, const struct store *st, const struct elastic_run *run)
{
	auto_free char *meet = elastic_meet(st, run->share.key);

	listing_row(l);
	put(l, run, meet);
}

static int check_run(const struct args *a, struct mlr_error *err)
{
	if (a->min > a->max)
		return mlr_fail(err, EINVAL, "--min=%ld is more than --max=%ld", a->min, a->max);
	if (!a->is_one_job && (a->signal || a->grace))
		return mlr_fail(
			err, EINVAL, "--%s is for --mode=requeue", a->signal ? "signal" : "grace");
	if (!a->w.x.exec.command || !*a->w.x.exec.command) {
		mlr_fail(err, EINVAL, "no command: each worker of a run runs it");
		return mlr_hint(err, "mlrun workers start starts workers without one");
	}
	return workers_refuse_options(&a->w, err);
}

static int run(const struct args *a)
{
	auto_store struct store *st = NULL;
	auto_call(elastic_run_done) struct elastic_run new = ELASTIC_RUN_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r = check_run(a, &err);

	if (r < 0)
		return cli_fail_at(&err, "elastic run");
	status = workers_bring_image(&a->w, 0, "elastic run");
	if (status != 0)
		return status;
	new.share.min = a->min;
	new.share.max = a->max;
	new.share.weight = a->weight;
	new.hold = a->hold >= 0 ? a->hold : a->is_one_job ? REQUEUE_S : HOLD_S;
	for (size_t i = 0; i < a->w.sbatch.n; i++)
		strv_add(&new.sbatch, a->w.sbatch.v[i]);
	r = workers_fill(&a->w, &new.wish, &err);
	if (a->is_one_job) {
		new.wish.warning = a->signal ? a->signal : SIGUSR1;
		new.wish.grace = a->grace ? a->grace : REQUEUE_S;
	}
	if (r == 0)
		r = store_open(a->w.x.common.store, 1, &st, &err);
	if (r == 0)
		r = elastic_start(st, &new, &err);
	if (r < 0)
		return cli_fail_at(&err, "elastic run '%s'", a->w.x.exec.image);
	if (a->json) {
		struct listing l = { .as_json = 1 };
		json_auto_t *rows = NULL;

		put_row(&l, st, &new);
		rows = listing_take(&l);
		return cli_print_json(json_incref(json_array_get(rows, 0)));
	}
	printf("%s\n", new.share.key);
	return 0;
}

static int cmd_elastic_run(int argc, char **argv)
{
	static struct args a = { .w.gpus = 1, .min = 1, .max = 4, .weight = 1, .hold = -1 };

	cli_exec_parse_with(argc, argv, run_options, workers_keep_word,
		"IMAGE [--] COMMAND [ARG...]",
		"Run a command in as many workers as are free, which are one-node jobs of Slurm's.\v"
		"Prints the run's id. Runs of all users share a partition: workers come and go, and "
		"the command has to bear that, as mltrain train --elastic does. It finds a path for "
		"meeting the others in MLRUN_ELASTIC. With --mode=requeue it need not bear it: it "
		"is warned, ended and begun again. --cpus and --memory are for each worker; the "
		"other options are those of mlrun exec.",
		&a.w.x);
	return run(&a);
}

/* --- list, stop ----------------------------------------------------------------------------- */

struct some {
	struct cli_common common;
	struct strv names;
	const char *id;
	int json, all, follow;
};

static int load(
	const struct some *a, struct store **st, struct elastic_list *ret, struct mlr_error *err)
{
	int r = cli_open_store(a->common.store, st, err);

	if (r == -ENOENT && !a->common.store)
		return cli_store_may_come(err);
	return r < 0 ? r : elastic_list(*st, ret, err);
}

static int print(const struct some *a, const struct store *st, const struct elastic_list *runs)
{
	static const struct elastic_run nothing = ELASTIC_RUN_INIT;
	struct listing l = { .as_json = a->json };

	for (size_t i = 0; i < runs->n; i++)
		if (a->all || runs->v[i].status <= ELASTIC_RUNNING)
			put_row(&l, st, &runs->v[i]);
	if (!l.rows) {
		listing_heads(&l);
		put(&l, &nothing, NULL);
	}
	return listing_end(&l);
}

static int cmd_list(int argc, char **argv)
{
	static const struct option_row options[] = { { "all", 'a', NULL, 0,
							     "also those that ended within a week",
							     0, OPT(struct some, all) },
		CLI_OPTION_JSON(struct some), { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.doc = "List your elastic runs." };
	auto_store struct store *st = NULL;
	auto_call(elastic_list_done) struct elastic_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct some a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (load(&a, &st, &l, &err) < 0)
		return cli_fail_at(&err, "elastic list");
	return print(&a, st, &l);
}

static int stop_one(
	struct store *st, const struct elastic_list *l, const char *id, struct mlr_error *err)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].share.key, id) == 0)
			return elastic_stop(st, &l->v[i], err);
	mlr_fail(err, ENOENT, "no run of yours is '%s'", id);
	return mlr_hint(err, "mlrun elastic list shows them");
}

static void check_stop(void *args, struct argp_state *state)
{
	const struct some *a = args;

	workers_check_all(state, a->all, &a->names);
}

static int cmd_elastic_stop(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "all", 'a', NULL, 0, "all of your runs in this store", 0, OPT(struct some, all) },
		{ 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "ID...\n--all",
		.s.doc = "End elastic runs, and wait until their workers are gone.",
		.s.operands = { OPT(struct some, names) },
		.s.check = check_stop };
	auto_store struct store *st = NULL;
	auto_call(elastic_list_done) struct elastic_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	static struct some a;
	int status = 0;

	cli_options_parse(argc, argv, &syntax, &a);
	if (load(&a, &st, &l, &err) < 0)
		status = cli_fail_at(&err, "elastic stop");
	for (size_t i = 0; status == 0 && a.all && i < l.n; i++)
		if (l.v[i].status <= ELASTIC_RUNNING)
			strv_add(&a.names, l.v[i].share.key);
	/* One that does not end does not keep the others. */
	for (size_t i = 0; i < a.names.n; i++)
		if (stop_one(st, &l, a.names.v[i], &err) < 0)
			status = cli_fail_at(&err, "elastic stop '%s'", a.names.v[i]);
	return status;
}

static int cmd_elastic_logs(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "follow", 'f', NULL, 0, "go on until it has ended", 0, OPT(struct some, follow) },
		{ 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "ID",
		.s.doc = "Print what the command has printed in each of a run's workers.",
		.s.operands = { OPT(struct some, id) },
		.s.needed = 1,
		.s.missing = "expected a run's id",
		.s.surplus = "one run at a time" };
	struct some a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	return workers_logs(a.common.store, a.id, 1, a.follow);
}

/* ------------------------------------------------------------------------------------------ */

static const struct command rows[] = {
	{ "run", cmd_elastic_run, NULL, "start one" },
	{ "list", cmd_list, NULL, "list them" },
	{ "top", cmd_elastic_top, NULL, "show who has what, again and again" },
	{ "logs", cmd_elastic_logs, NULL, "print what one has printed" },
	{ "stop", cmd_elastic_stop, NULL, "end some" },
};

static const struct commands commands = {
	.group = "elastic",
	.before = "Usage: mlrun elastic COMMAND [OPTION...] [ARG...]\n"
		  "Run a command on as many nodes as are free, and share them with other runs.\n\n",
	.after = "\n`mlrun elastic COMMAND --help` lists a command's options; mlrun-elastic(1) the "
		 "rest.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

int cmd_elastic(int argc, char **argv)
{
	return commands_run(&commands, argc, argv);
}
