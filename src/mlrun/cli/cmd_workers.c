/* mlrun workers: a row for each subcommand; those that end workers and show their output. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/workers.h"

struct args {
	struct cli_common common;
	struct strv names;
	int json, all, follow;
};

/* --- stop --------------------------------------------------------------------------------- */

static void check_stop(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (a->all && a->names.n > 0)
		argp_error(state, "--all is all of them: no id is expected");
	if (!a->all && a->names.n == 0)
		argp_error(state, "which? Give ids, or --all");
}

static int stop(const struct args *a)
{
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int r = workers_open(a->common.store, &st, &l, &err);

	if (r == 0)
		r = workers_choose(&l, &a->names, &err);
	if (r == 0 && l.n > 0)
		r = work_stop(st, &l, &err);
	if (r < 0)
		return cli_fail_at(&err, "workers stop");
	return a->json ? workers_print(st, &l, 1) : 0;
}

static int cmd_workers_stop(int argc, char **argv)
{
	static const struct option_row options[] = { { "all", 'a', NULL, 0,
							     "all of your workers in this store", 0,
							     OPT(struct args, all) },
		CLI_OPTION_JSON(struct args), { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "ID...\n--all",
		.s.doc = "End workers, and wait until they are gone.",
		.s.operands = { OPT(struct args, names) },
		.s.check = check_stop };
	struct args a = { 0 };
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = stop(&a);
	strv_done(&a.names);
	return status;
}

/* --- logs --------------------------------------------------------------------------------- */

/* Print what there is from here on. Returns -errno of writing. */
static int pass_on(int log)
{
	char buf[1 << 16];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(log, buf, sizeof(buf))) > 0)
		r = file_write_all(STDOUT_FILENO, buf, (size_t)n);
	return r;
}

/* The log comes with the job's start. Whether the worker has ended is asked seldom: that may be a
 * question to Slurm. */
static int follow(struct store *st, struct worker_list *l, const char *path, struct mlr_error *err)
{
	auto_close int log = -1;

	for (int i = 0;; i++) {
		int r = i % 10 == 0 ? work_look(st, l, err) : 0, over;

		if (r < 0)
			return r;
		over = worker_has_ended(&l->v[0]);
		if (log < 0)
			log = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		r = log >= 0 ? pass_on(log) : 0;
		if (r < 0)
			return mlr_fail(err, -r, "write: %s", strerror(-r));
		if (over)
			return 0;
		mlr_sleep_ms(200);
	}
}

static int print_log(const struct args *a, struct store *st, struct worker_list *l)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *path = worker_path(st, &l->v[0], "log");
	auto_close int log = -1;
	int r;

	if (a->follow) {
		r = follow(st, l, path, &err);
		return r < 0 ? cli_fail_at(&err, "workers logs %s", l->v[0].id) : 0;
	}
	log = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (log < 0 && errno == ENOENT) /* it has not begun */
		return 0;
	if (log < 0) {
		mlr_fail_errno(&err, "'%s'", path);
		return cli_fail_at(&err, "workers logs %s", l->v[0].id);
	}
	r = pass_on(log);
	if (r < 0)
		cli_stdout_failed(-r);
	return r < 0 ? CLI_FAILED : 0;
}

static int cmd_workers_logs(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "follow", 'f', NULL, 0, "go on until it has ended", 0, OPT(struct args, follow) },
		{ 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "ID",
		.s.doc = "Print what a worker's command has printed.",
		.s.operands = { OPT(struct args, names) },
		.s.needed = 1,
		.s.missing = "expected a worker's id" };
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	if (a.names.n > 1)
		r = mlr_fail(&err, EINVAL, "one worker at a time");
	else
		r = workers_open(a.common.store, &st, &l, &err);
	if (r == 0)
		r = workers_choose(&l, &a.names, &err);
	strv_done(&a.names);
	return r < 0 ? cli_fail_at(&err, "workers logs") : print_log(&a, st, &l);
}

/* --- hold --------------------------------------------------------------------------------- */

/* Be a worker's supervisor: the command of its job, or of its process here. */
static int cmd_hold(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.args_doc = "KEY",
		.s.doc = "Supervise a worker; mlrun workers start calls this.",
		.s.operands = { OPT(struct args, names) },
		.s.needed = 1,
		.s.missing = "expected a worker's key" };
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	int r, status = CLI_FAILED;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.common.store, &st, &err);
	if (r == 0)
		r = work_hold(st, a.names.v[0], &status, &err);
	strv_done(&a.names);
	return r < 0 ? cli_fail_at(&err, "worker") : status;
}

/* ------------------------------------------------------------------------------------------ */

static const struct command rows[] = {
	{ "start", cmd_workers_start, NULL, "start some" },
	{ "list", cmd_workers_list, NULL, "list them" },
	{ "await", cmd_workers_await, NULL, "wait until they are ready, or have ended" },
	{ "hosts", cmd_workers_hosts, NULL, "print them as mpirun -H takes them" },
	{ "logs", cmd_workers_logs, NULL, "print what one has printed" },
	{ "stop", cmd_workers_stop, NULL, "end them" },
	{ "hold", cmd_hold, NULL, NULL },
};

static const struct commands commands = {
	.group = "workers",
	.before =
		"Usage: mlrun workers COMMAND [OPTION...] [ARG...]\n"
		"Start containers on other nodes, and use them: jobs of Slurm's, or processes here.\n\n",
	.after =
		"\n`mlrun workers COMMAND --help` lists a command's options; mlrun-workers(1) the rest.\n"
		"mlrun-rsh(1) runs commands on them, for mpirun, too.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

int cmd_workers(int argc, char **argv)
{
	return commands_run(&commands, argc, argv);
}
