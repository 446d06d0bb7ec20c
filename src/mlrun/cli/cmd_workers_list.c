/* mlrun workers list, await, hosts: how workers are, and where. */
#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/options.h"
#include "cli/workers.h"

#include "base/json.h"

#include <math.h>

#define TIME_IS_UP 124 /* as of timeout(1) */

struct args {
	struct cli_common common;
	struct strv names;
	int json, all, done, hostfile;
	double seconds; /* -1: no limit */
	long slots;     /* 0: each worker's */
};

static void parse_timeout(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *end;

	a->seconds = strtod(arg, &end);
	if (end == arg || *end || !(a->seconds >= 0 && isfinite(a->seconds)))
		argp_error(state, "--timeout takes seconds, not '%s'", arg);
}

static int load(const struct args *a, struct store **st, struct worker_list *l, int all)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = workers_open(a->common.store, st, l, &err);

	if (r == 0 && (!all || a->names.n > 0))
		r = workers_choose(l, &a->names, &err);
	return r < 0 ? cli_fail_at(&err, "workers") : 0;
}

/* --- list ----------------------------------------------------------------------------------- */

int cmd_workers_list(int argc, char **argv)
{
	static const struct option_row options[] = { { "all", 'a', NULL, 0,
							     "also those that ended within a week",
							     0, OPT(struct args, all) },
		CLI_OPTION_JSON(struct args), { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[ID...]",
		.s.doc = "List your workers.",
		.s.operands = { OPT(struct args, names) } };
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	static struct args a;
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = load(&a, &st, &l, a.all);
	return status != 0 ? status : workers_print(st, &l, a.json);
}

/* --- await ---------------------------------------------------------------------------------- */

/* Is it what was waited for? A worker that ended before anybody could use it is not. */
static int is_good(const struct worker *w, int done)
{
	return w->status == WORKER_SUCCEEDED || (!done && w->status == WORKER_RUNNING);
}

static int await(const struct args *a, struct store *st, struct worker_list *l)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = st ? work_await(st, l, a->done ? WORK_DONE : WORK_READY, a->seconds, &err) : 0;
	int status = 0;

	if (l->n == 0 && !a->done) {
		mlr_fail(&err, ENOENT, "no worker waits or runs");
		mlr_hint(&err, "mlrun workers list --all shows those that ended");
		return cli_fail_at(&err, "workers await");
	}
	if (r < 0 && r != -ETIMEDOUT)
		return cli_fail_at(&err, "workers await");
	for (size_t i = 0; i < l->n; i++)
		if (!is_good(&l->v[i], a->done))
			status = 1;
	if (r < 0) {
		cli_fail_at(&err, "workers await");
		status = TIME_IS_UP;
	}
	if (workers_print(st, l, a->json) != 0)
		return CLI_FAILED;
	return status;
}

int cmd_workers_await(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "timeout", 't', "SECONDS", 0, "wait no longer (default: without limit)", 0,
			OPT_CALL(parse_timeout) },
		{ "done", 0, NULL, 0, "until they have ended", 0, OPT(struct args, done) },
		CLI_OPTION_JSON(struct args), { 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[ID...]",
		.s.doc =
			"Wait until workers can be used: those named, or all that have not ended.\v"
			"Lists them then. The exit status is 0 if all are ready (--done: succeeded), 1 "
			"if one ended otherwise, 124 if the time was up, 125 if mlrun failed.",
		.s.operands = { OPT(struct args, names) } };
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	static struct args a = { .seconds = -1 };
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = load(&a, &st, &l, 0);
	return status != 0 ? status : await(&a, st, &l);
}

/* --- hosts ---------------------------------------------------------------------------------- */

static int check_running(const struct worker_list *l, struct mlr_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct worker *w = &l->v[i];

		if (w->status == WORKER_RUNNING)
			continue;
		mlr_fail(err, EAGAIN, "worker %s is %s", w->id, worker_status_names[w->status]);
		return worker_has_ended(w)
			? mlr_hint(err, "mlrun workers logs %s says why", w->id)
			: mlr_hint(err, "mlrun workers await waits until it is ready");
	}
	if (l->n > 0)
		return 0;
	mlr_fail(err, ENOENT, "no worker runs");
	return mlr_hint(err, "mlrun workers start starts some");
}

static int print_hosts(const struct args *a, const struct worker_list *workers)
{
	struct listing l = { .as_json = 1 };

	for (size_t i = 0; i < workers->n; i++) {
		const struct worker *w = &workers->v[i];
		auto_free char *host = worker_host(w);
		long slots = a->slots ? a->slots : worker_slots(w);

		listing_row(&l);
		listing_text(&l, NULL, "id", w->id);
		listing_text(&l, NULL, "host", host);
		listing_text(&l, NULL, "node", w->node);
		listing_text(&l, NULL, "ip_address", w->address);
		listing_number(&l, NULL, "slots", slots);
		if (a->hostfile && !a->json)
			printf("%s slots=%ld\n", host, slots);
		else if (!a->json)
			printf("%s%s:%ld", i ? "," : "", host, slots);
	}
	if (a->json)
		return listing_end(&l);
	json_decref(listing_take(&l));
	if (!a->hostfile)
		putchar('\n');
	return 0;
}

int cmd_workers_hosts(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "hostfile", 0, NULL, 0, "a line for each, as mpirun --hostfile reads them", 0,
			OPT(struct args, hostfile) },
		{ "slots", 0, "N", 0, "ranks on each (default: its GPUs, else its processors)", 0,
			OPT_COUNT(struct args, slots, 1, 1 << 20) },
		CLI_OPTION_JSON(struct args), { 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[ID...]",
		.s.doc = "Print workers as mpirun -H takes them: HOST:SLOTS,HOST:SLOTS.\v"
			 "They are reached by mlrun-rsh: mpirun --mca plm_rsh_agent mlrun-rsh.",
		.s.operands = { OPT(struct args, names) } };
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	static struct args a;
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = load(&a, &st, &l, 0);
	if (status != 0)
		return status;
	if (check_running(&l, &err) < 0)
		return cli_fail_at(&err, "workers hosts");
	return print_hosts(&a, &l);
}
