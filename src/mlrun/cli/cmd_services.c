/* mlrun logs, stop, kill, restart and wait: services by their names, or all of a project. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/services.h"

#include "base/duration.h"

struct args {
	struct services_choice c;
	int64_t timeout_ms;
	struct service_range range;
	const char *since, *until;
	int signal;
	int follow, timestamps, remove;
};

#define ARGS_INIT                                                             \
	{                                                                     \
		.timeout_ms = -1, .range = { .tail = -1 }, .signal = SIGKILL, \
	}

static void parse_tail(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->range.tail = options_number(arg, 0, LONG_MAX);
	if (a->range.tail < 0 && strcmp(arg, "all") != 0)
		argp_error(state, "--tail takes a number of lines or all, not '%s'", arg);
}

/* ".5": 500000000. Moves past it. */
static long read_part(const char **s)
{
	long ns = 0, unit = 100000000;

	for (*s += **s == '.'; **s >= '0' && **s <= '9'; ++*s, unit /= 10)
		ns += (**s - '0') * unit;
	return ns;
}

/* "2026-11-29", "...T10:00", "...T10:00:00.5"; with Z or +01:00, else of this machine's time zone.
 * Returns 0 or -EINVAL. */
static int read_date(const char *text, struct timespec *ret)
{
	static const char *const formats[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d" };
	const char *rest = NULL;
	struct tm tm;
	long east;

	for (size_t i = 0; !rest && i < ARRAY_LEN(formats); i++) {
		tm = (struct tm){ .tm_isdst = -1 };
		rest = strptime(text, formats[i], &tm);
	}
	if (!rest)
		return -EINVAL;
	ret->tv_nsec = read_part(&rest);
	if (!*rest) {
		ret->tv_sec = mktime(&tm);
		return 0;
	}
	rest = strptime(rest, "%z", &tm);
	east = tm.tm_gmtoff; /* timegm(3) changes it */
	ret->tv_sec = timegm(&tm) - east;
	return rest && !*rest ? 0 : -EINVAL;
}

/* A time as the log has it, of a date, of seconds since the epoch or of a span before now. Returns
 * 0 or -EINVAL. */
static int read_time(const char *arg, char ret[SERVICE_TIME])
{
	size_t digits = strspn(arg, "0123456789");
	const char *rest = arg + digits;
	struct timespec t = { .tv_sec = strtol(arg, NULL, 10) };
	double span;
	int64_t ms;

	t.tv_nsec = read_part(&rest);
	if (digits == 0 || digits > 11)
		return -EINVAL;
	if (*rest) {
		span = duration_seconds(arg, strlen(arg));
		if (span > 1e9)
			return -EINVAL;
		ms = mlr_epoch_ms() - (int64_t)(span * 1000);
		t = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
		if (span < 0)
			TRY(read_date(arg, &t));
	}
	service_time(&t, ret);
	return 0;
}

static void take_time(
	const char *option, const char *arg, char ret[SERVICE_TIME], struct argp_state *state)
{
	if (arg && read_time(arg, ret) < 0)
		argp_error(state,
			"%s takes a time such as 2026-11-29T10:00:00, 10m (ago) or seconds since 1970, not '%s'",
			option, arg);
}

static void check(void *args, struct argp_state *state)
{
	struct args *a = args;

	if (a->c.names.n == 0 && !a->c.project)
		argp_error(state, "a service's name is missing; mlrun ps lists them");
	take_time("--since", a->since, a->range.since, state);
	take_time("--until", a->until, a->range.until, state);
}

#define PROJECT                                                                                   \
	{                                                                                         \
		"project", 'p', "NAME", 0, "those of this project of mlrun up (default: all)", 0, \
			OPT(struct args, c.project)                                               \
	}

#define TIMEOUT                                                                             \
	{                                                                                   \
		"timeout", 't', "SECONDS", 0, "to SIGKILL (default: the service's own)", 0, \
			OPT_COUNT_OF(struct args, timeout_ms, 0, INT_MAX / 1000, 1000)      \
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

static int print_logs(struct args *a)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct services_output o = { .range = a->range,
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

static int run(int argc, char **argv, const struct option_row *options, const char *doc,
	int (*one)(
		const struct args *a, struct store *st, struct service *s, struct mlr_error *err))
{
	const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = options ? "NAME...\n--project NAME" : "NAME...",
		.s.doc = doc,
		.s.operands = { OPT(struct args, c.names) },
		.s.check = check };
	static struct args a = ARGS_INIT;

	cli_options_parse(argc, argv, &syntax, &a);
	return one ? act(&a, argv[0], one) : print_logs(&a);
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
	static const struct option_row options[] = { TIMEOUT,
		{ "rm", 0, NULL, 0, "forget them, with their logs", 0, OPT(struct args, remove) },
		PROJECT, { 0 } };

	return run(argc, argv, options,
		"End services, and wait until all of their containers has ended.", stop);
}

/* --- kill ------------------------------------------------------------------------------------ */

static int send_signal(
	const struct args *a, struct store *st, struct service *s, struct mlr_error *err)
{
	int r = service_kill(st, s, a->signal, err);

	if (r == 0)
		printf("%s\n", s->name);
	return r;
}

int cmd_kill(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "signal", 's', "SIGNAL", 0,
			"send this one to the command (default: KILL, to all)", 0,
			OPT_READ(struct args, signal, cli_read_signal, CLI_A_SIGNAL) },
		PROJECT, { 0 }
	};

	return run(argc, argv, options, "End services at once, or send their commands a signal.",
		send_signal);
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
	static const struct option_row options[] = { TIMEOUT, PROJECT, { 0 } };

	return run(argc, argv, options,
		"End services and start them again, or start again what has ended.", restart);
}

/* --- wait ------------------------------------------------------------------------------------ */

static int await(const struct args *a, struct store *st, struct service *s, struct mlr_error *err)
{
	TRY(service_await(st, s, -1, err));
	if (s->status == SERVICE_LOST)
		return mlr_fail(err, ECHILD, "its supervisor was killed: how it ended is unknown");
	if (s->exit_status < 0)
		return mlr_fail(err, ECHILD, "it has ended and was forgotten");
	printf("%d\n", s->exit_status);
	return fflush(stdout) == EOF ? mlr_fail_errno(err, "write") : 0;
}

int cmd_wait(int argc, char **argv)
{
	return run(argc, argv, NULL,
		"Wait until services have ended, and print their exit statuses.", await);
}

/* --- logs ------------------------------------------------------------------------------------ */

int cmd_logs(int argc, char **argv)
{
	static const struct option_row options[] = { { "follow", 'f', NULL, 0,
							     "go on until they have ended", 0,
							     OPT(struct args, follow) },
		{ "tail", 'n', "N", 0, "only the last N lines", 0, OPT_CALL(parse_tail) },
		{ "since", 0, "TIME", 0, "only lines of this time, or later", 0,
			OPT(struct args, since) },
		{ "until", 0, "TIME", 0, "only lines of this time, or earlier", 0,
			OPT(struct args, until) },
		{ "timestamps", 't', NULL, 0, "begin each line with its time", 0,
			OPT(struct args, timestamps) },
		PROJECT, { 0 } };

	return run(argc, argv, options, "Print what services have printed.", NULL);
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
	static struct args a = ARGS_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.c.common.store, &st, &err);
	if (r == 0 && (r = service_name_check(a.c.names.v[0], &err)) == 0)
		r = service_hold(st, a.c.names.v[0], &err);
	return r < 0 ? cli_fail_at(&err, "service") : 0;
}
