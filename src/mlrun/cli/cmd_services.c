/* mlrun logs, stop, restart and wait: services by their names, or all of a project. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/services.h"

#include "base/base.h"

struct args {
	struct services_choice c;
	int64_t timeout_ms;
	int64_t tail;
	int follow, timestamps, remove;
};

#define ARGS_INIT                             \
	{                                     \
		.timeout_ms = -1, .tail = -1, \
	}

static void parse_tail(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->tail = options_number(arg, 0, LONG_MAX);
	if (a->tail < 0 && strcmp(arg, "all") != 0)
		argp_error(state, "--tail takes a number of lines or all, not '%s'", arg);
}

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (a->c.names.n == 0 && !a->c.project)
		argp_error(state, "a service's name is missing; mlrun ps lists them");
}

#define PROJECT                                                                                   \
	{                                                                                         \
		"project", 'p', "NAME", 0, "those of this project of mlrun up (default: all)", 0, \
			OPT(struct args, c.project)                                               \
	}

static int act(struct args *a, const char *command,
	int (*one)(
		const struct args *a, struct store *st, struct service *s, struct mlr_error *err))
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0, r = services_open(a->c.common.store, &st, &err);

	if (r == 0)
		r = services_choose(st, &a->c, &err);
	if (r < 0)
		status = cli_fail_at(&err, "%s", command);
	for (size_t i = 0; i < a->c.list.n; i++) {
		struct service *s = &a->c.list.v[i];

		if (one(a, st, s, &err) < 0)
			status = cli_fail_at(&err, "%s '%s'", command, s->name);
	}
	return status;
}

static int run(int argc, char **argv, const struct cli_syntax *syntax,
	int (*one)(
		const struct args *a, struct store *st, struct service *s, struct mlr_error *err))
{
	struct args a = ARGS_INIT;
	int status;

	cli_options_parse(argc, argv, syntax, &a);
	status = act(&a, argv[0], one);
	services_choice_done(&a.c);
	return status;
}

/* --- stop ------------------------------------------------------------------------------------ */

static int stop(const struct args *a, struct store *st, struct service *s, struct mlr_error *err)
{
	int r = service_stop(st, s, a->timeout_ms, err);

	if (r == 0 && a->remove)
		r = service_forget(st, s, err);
	if (r == 0)
		printf("%s\n", s->name);
	return r;
}

int cmd_stop(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "timeout", 't', "SECONDS", 0, "to SIGKILL (default: the service's own)", 0,
			OPT_COUNT_OF(struct args, timeout_ms, 0, INT_MAX / 1000, 1000) },
		{ "rm", 0, NULL, 0, "forget them, with their logs", 0, OPT(struct args, remove) },
		PROJECT, { 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "NAME...\n--project NAME",
		.s.doc = "End services, and wait until all of their containers has ended.",
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };

	return run(argc, argv, &syntax, stop);
}

/* --- restart --------------------------------------------------------------------------------- */

static int restart(const struct args *a, struct store *st, struct service *s, struct mlr_error *err)
{
	int r = service_restart(st, s, a->timeout_ms, err);

	if (r == -ECHILD)
		mlr_hint(err, "mlrun logs --tail 10 %s shows why", s->name);
	if (r == 0)
		printf("%s\n", s->name);
	return r;
}

int cmd_restart(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "timeout", 't', "SECONDS", 0, "to SIGKILL (default: the service's own)", 0,
			OPT_COUNT_OF(struct args, timeout_ms, 0, INT_MAX / 1000, 1000) },
		PROJECT, { 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "NAME...\n--project NAME",
		.s.doc = "End services and start them again, or start again what has ended.",
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };

	return run(argc, argv, &syntax, restart);
}

/* --- wait ------------------------------------------------------------------------------------ */

static int await(const struct args *a, struct store *st, struct service *s, struct mlr_error *err)
{
	int r = service_await(st, s, -1, err);

	if (r < 0)
		return r;
	if (s->status == SERVICE_LOST)
		return mlr_fail(err, ECHILD, "its supervisor was killed: how it ended is unknown");
	if (s->exit_status < 0)
		return mlr_fail(err, ECHILD, "it has ended and was forgotten");
	printf("%d\n", s->exit_status);
	return fflush(stdout) == EOF ? mlr_fail_errno(err, "write") : 0;
}

int cmd_wait(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.args_doc = "NAME...",
		.s.doc = "Wait until services have ended, and print their exit statuses.",
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };

	return run(argc, argv, &syntax, await);
}

/* --- logs ------------------------------------------------------------------------------------ */

static int print_logs(struct args *a)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct services_output o = { .tail = a->tail,
		.timestamps = a->timestamps,
		.follow = a->follow,
		.prefix = a->c.project || a->c.names.n > 1 };
	int r = services_open(a->c.common.store, &st, &err);

	if (r == 0)
		r = services_choose(st, &a->c, &err);
	if (r == 0)
		r = services_print(st, &a->c.list, &o, &err);
	return r < 0 ? cli_fail_at(&err, "logs") : 0;
}

int cmd_logs(int argc, char **argv)
{
	static const struct option_row options[] = { { "follow", 'f', NULL, 0,
							     "go on until they have ended", 0,
							     OPT(struct args, follow) },
		{ "tail", 'n', "N", 0, "only the last N lines", 0, OPT_CALL(parse_tail) },
		{ "timestamps", 't', NULL, 0, "begin each line with its time", 0,
			OPT(struct args, timestamps) },
		PROJECT, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "NAME...\n--project NAME",
		.s.doc = "Print what services have printed.",
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };
	struct args a = ARGS_INIT;
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = print_logs(&a);
	services_choice_done(&a.c);
	return status;
}

/* --- the supervisor -------------------------------------------------------------------------- */

int cmd_service_hold(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.args_doc = "NAME",
		.s.doc = "Supervise a service; mlrun run -d calls this.",
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = ARGS_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.c.common.store, &st, &err);
	if (r == 0 && (r = service_name_check(a.c.names.v[0], &err)) == 0)
		r = service_hold(st, a.c.names.v[0], &err);
	services_choice_done(&a.c);
	return r < 0 ? cli_fail_at(&err, "service") : 0;
}
