/* mlrun run: exec, as Docker calls it, or with -d a service in the background. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/services.h"

#include "base/duration.h"
#include "base/proc.h"

struct args {
	struct cli_exec x;
	struct service s;
	struct strv words; /* exec's options in their long form */
	const char *name, *check, *log_file;
	const char *only_detached; /* an option that needs -d; NULL: none was given */
	int detach, no_check, remove;
	/* What the options say; 0: nothing. The image's own stand otherwise. */
	int64_t interval, timeout, start_period, start_interval;
	long retries;
	int stop_signal;
};

static void keep_word(void *args, const char *name, const char *arg)
{
	struct args *a = args;

	cli_exec_keep(name, arg, &a->words, &a->s.env);
}

static void parse_restart(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *colon = strchr(arg, ':');
	long n = colon ? options_number(colon + 1, 0, INT_MAX) : 0;

	if (strcmp(arg, "no") != 0)
		a->only_detached = "--restart";
	if (colon)
		*colon = '\0';
	/* There is no daemon whose restart would tell the two apart. */
	if (strcmp(arg, "unless-stopped") == 0)
		arg = (char *)"always";
	for (int i = 0; i <= SERVICE_ALWAYS && n >= 0; i++)
		if (strcmp(arg, service_restart_names[i]) == 0 &&
			(!colon || i == SERVICE_ON_FAILURE)) {
			a->s.restart = (enum service_restart)i;
			a->s.restarts_max = n;
			return;
		}
	argp_error(state,
		"--restart takes no, on-failure, on-failure:TIMES or always, not '%s%s%s'", arg,
		colon ? ":" : "", colon ? colon + 1 : "");
}

/* In milliseconds, at least one. */
static int64_t parse_span(const char *option, const char *arg, struct argp_state *state)
{
	int64_t ns = duration_ns(arg);

	if (ns < 1000000)
		argp_error(state, "%s takes a time such as 500ms, 30s or 1m30s, not '%s'", option,
			arg);
	return ns / 1000000;
}

#define PARSE_SPAN(field, option)                                                  \
	static void parse_##field(void *args, char *arg, struct argp_state *state) \
	{                                                                          \
		struct args *a = args;                                             \
                                                                                   \
		a->only_detached = option;                                         \
		a->field = parse_span(option, arg, state);                         \
	}
PARSE_SPAN(interval, "--health-interval")
PARSE_SPAN(timeout, "--health-timeout")
PARSE_SPAN(start_period, "--health-start-period")
PARSE_SPAN(start_interval, "--health-start-interval")

static void parse_retries(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->only_detached = "--health-retries";
	a->retries = options_number(arg, 1, INT_MAX);
	if (a->retries < 0)
		argp_error(state, "--health-retries takes a number from 1 on, not '%s'", arg);
}

static void parse_check(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->only_detached = "--health-cmd";
	a->check = arg;
	if (!*arg)
		argp_error(state, "--health-cmd: the command is empty; --no-healthcheck has none");
}

static void parse_stop_signal(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->only_detached = "--stop-signal";
	a->stop_signal = signal_number(arg);
	if (a->stop_signal < 0)
		argp_error(state, "--stop-signal takes a signal such as INT or 2, not '%s'", arg);
}

static void parse_stop_timeout(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	long n = options_number(arg, 0, INT_MAX / 1000);

	a->only_detached = "--stop-timeout";
	a->s.stop_ms = n * 1000;
	if (n < 0)
		argp_error(state, "--stop-timeout takes a number of seconds, not '%s'", arg);
}

static void parse_log_size(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	int64_t n = cli_parse_size(arg);

	a->only_detached = "--log-size";
	a->s.log_size = (uint64_t)n;
	if (n < 4000)
		argp_error(state, "--log-size takes a size from 4k on, such as 10m, not '%s'", arg);
}

static void parse_log_file(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->only_detached = "--log-file";
	a->log_file = options_file(state, "log-file", arg);
}

static const struct option_row options[] = {
	{ NULL, 0, NULL, 0, "Services:", -2 },
	{ "detach", 'd', NULL, 0, "start a service in the background, and print its name", -2,
		OPT(struct args, detach) },
	{ "name", 0, "NAME", 0, "its name (default: the image's and some letters)", -2,
		OPT(struct args, name) },
	{ "restart", 0, "WHEN", 0,
		"start it again when it has ended: no (default), on-failure[:TIMES], always", -2,
		OPT_CALL(parse_restart) },
	{ "rm", 0, NULL, 0, "forget it when it has ended", -2, OPT(struct args, remove) },
	{ "stop-signal", 0, "SIGNAL", 0, "the signal to end it (default: the image's, else TERM)",
		-2, OPT_CALL(parse_stop_signal) },
	{ "stop-timeout", 0, "SECONDS", 0, "from then to SIGKILL (default: 10)", -2,
		OPT_CALL(parse_stop_timeout) },
	{ "log-size", 0, "SIZE", 0, "keep so much of its output (default: 10m)", -2,
		OPT_CALL(parse_log_size) },
	{ "log-file", 0, "FILE", 0, "append its output to this file, too, as it is", -2,
		OPT_CALL(parse_log_file) },
	{ "health-cmd", 0, "COMMAND", 0,
		"check it with a line for sh in the container (default: the image's HEALTHCHECK)",
		-2, OPT_CALL(parse_check) },
	{ "health-interval", 0, "TIME", 0, "between two checks (default: 30s)", -2,
		OPT_CALL(parse_interval) },
	{ "health-timeout", 0, "TIME", 0, "for one (default: 30s)", -2, OPT_CALL(parse_timeout) },
	{ "health-retries", 0, "N", 0, "failures in a row that make it unhealthy (default: 3)", -2,
		OPT_CALL(parse_retries) },
	{ "health-start-period", 0, "TIME", 0,
		"after its start, in which failures do not count (default: 0)", -2,
		OPT_CALL(parse_start_period) },
	{ "health-start-interval", 0, "TIME", 0, "between checks in that time (default: 5s)", -2,
		OPT_CALL(parse_start_interval) },
	{ "no-healthcheck", 0, NULL, 0, "ignore the image's HEALTHCHECK", -2,
		OPT(struct args, no_check) },
	{ 0 },
};

/* --- what it is to be ----------------------------------------------------------------------- */

static int refuse_options(const struct args *a, struct mlr_error *err)
{
	const struct exec_options *o = &a->x.exec;

	if (a->x.explain) {
		mlr_fail(err, EINVAL, "--explain runs nothing");
		return mlr_hint(err, "leave -d out");
	}
	if (o->join || !o->image) {
		mlr_fail(err, EINVAL, "--join: a service is a new container");
		return mlr_hint(err, "mlrun exec --join NAME runs a command in a service");
	}
	if (o->preserve_fds > 0 || o->keep_fds.n > 0)
		return mlr_fail(err, EINVAL,
			"--preserve-fds, --preserve-fd: a service inherits no descriptors");
	if (a->remove && a->s.restart != SERVICE_NO_RESTART)
		return mlr_fail(err, EINVAL, "--rm and --restart exclude each other");
	if (a->no_check && a->check)
		return mlr_fail(
			err, EINVAL, "--health-cmd and --no-healthcheck exclude each other");
	return a->name ? service_name_check(a->name, err) : 0;
}

/* "redis-3fa2c1" of "docker.io/library/redis:7". */
static char *make_name(const char *image)
{
	const char *slash = strrchr(image, '/'), *colon, *from;
	auto_free char *base = NULL;
	char hex[RANDOM_HEX_SIZE];

	from = slash ? slash + 1 : image;
	colon = strchr(image, ':');
	if (!slash && colon && strncmp(image, "container:", 10) == 0)
		from = colon + 1;
	base = xstrndup(from, strcspn(from, ":@"));
	for (char *c = base; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-",
			    *c))
			*c = '_';
	random_hex(hex);
	return xasprintf("%s%.64s-%.6s", strchr("_.-", base[0]) ? "s" : "", base, hex);
}

static void take_options(struct args *a)
{
	struct service_check *c = &a->s.check;

	if (a->check) {
		strv_done(&c->test);
		strv_add(&c->test, "/bin/sh");
		strv_add(&c->test, "-c");
		strv_add(&c->test, a->check);
	}
	c->interval = a->interval ? a->interval : c->interval;
	c->timeout = a->timeout ? a->timeout : c->timeout;
	c->start_period = a->start_period ? a->start_period : c->start_period;
	c->start_interval = a->start_interval ? a->start_interval : c->start_interval;
	c->retries = a->retries ? a->retries : c->retries;
	if (a->stop_signal)
		a->s.stop_signal = a->stop_signal;
}

static int fill(struct args *a, struct mlr_error *err)
{
	const struct exec_options *o = &a->x.exec;
	struct service *s = &a->s;

	TRY(services_take_image(o->image, o->store, !a->no_check, s, NULL, err));
	take_options(a);
	s->name = a->name ? xstrdup(a->name) : make_name(o->image);
	s->image = xstrdup(o->image);
	s->directory = getcwd(NULL, 0);
	if (!s->directory)
		return mlr_fail_errno(err, "the working directory");
	if (a->log_file)
		s->log_file = *a->log_file == '/' ? xstrdup(a->log_file)
						  : xasprintf("%s/%s", s->directory, a->log_file);
	s->remove = a->remove;
	s->options = a->words;
	a->words = (struct strv)STRV_INIT;
	for (char *const *c = o->command; c && *c; c++)
		strv_add(&s->command, *c);
	return 0;
}

static int detach(struct args *a)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r = refuse_options(a, &err);

	if (r < 0)
		return cli_fail_at(&err, "run");
	status = services_prepare(&a->x, "run");
	if (status != 0)
		return status;
	r = fill(a, &err);
	if (r == 0)
		r = store_open(a->x.common.store, 1, &st, &err);
	if (r < 0)
		return cli_fail_at(&err, "run '%s'", a->x.exec.image);
	status = services_launch(st, &a->s, "run");
	if (status == 0)
		printf("%s\n", a->s.name);
	return status;
}

/* ------------------------------------------------------------------------------------------- */

/* Scripts of Docker's name what they remove at once. */
static int refuse_service_options(const struct args *a)
{
	const char *option = a->name && !a->remove ? "--name" : a->only_detached;
	struct mlr_error err = MLR_ERROR_INIT;

	if (!option)
		return 0;
	mlr_fail(&err, EINVAL, "%s is a service's: mlrun run without -d becomes the command",
		option);
	mlr_hint(&err,
		strcmp(option, "--name") == 0
			? "-d starts a service; --write=NAME names the kept container; with --rm the name does not matter"
			: "-d --name NAME starts a service");
	return cli_fail_at(&err, "run");
}

int cmd_run(int argc, char **argv)
{
	struct args a = { .s = SERVICE_INIT };
	int status;

	cli_exec_parse_with(argc, argv, options, keep_word, "IMAGE [--] [COMMAND [ARG...]]",
		"Run a command in an image, as mlrun exec does, or a service with -d.\v"
		"A service has a small supervisor of its own and needs no daemon: mlrun ps, logs, stop, "
		"restart and wait know it by its name, and mlrun exec --join NAME runs commands in it. "
		"The exit status is the command's own, with -d 0 when it runs; 125: mlrun failed, 126: "
		"the command could not be executed, 127: it was not found.",
		&a.x);
	status = a.detach ? 0 : refuse_service_options(&a);
	if (status == 0)
		status = a.detach ? detach(&a) : cli_exec_run(&a.x, NULL);
	service_done(&a.s);
	strv_done(&a.words);
	cli_exec_done(&a.x);
	return status;
}
