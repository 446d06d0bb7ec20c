/* mlrun workers: a row for each subcommand; those that end workers and show their output. */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/workers.h"

struct args {
	struct cli_common common;
	struct strv names;
	const char *id;
	int json, all, follow;
};

/* --- stop --------------------------------------------------------------------------------- */

static void check_stop(void *args, struct argp_state *state)
{
	const struct args *a = args;

	workers_check_all(state, a->all, &a->names);
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
	static struct args a;

	cli_options_parse(argc, argv, &syntax, &a);
	return stop(&a);
}

/* --- logs --------------------------------------------------------------------------------- */

static int cmd_workers_logs(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "follow", 'f', NULL, 0, "go on until it has ended", 0, OPT(struct args, follow) },
		{ 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "ID",
		.s.doc = "Print what a worker's command has printed.",
		.s.operands = { OPT(struct args, id) },
		.s.needed = 1,
		.s.missing = "expected a worker's id",
		.s.surplus = "one worker at a time" };
	struct args a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	return workers_logs(a.common.store, a.id, 0, a.follow);
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
	static struct args a;
	int r, status = CLI_FAILED;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.common.store, &st, &err);
	if (r == 0)
		r = work_hold(st, a.names.v[0], &status, &err);
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
