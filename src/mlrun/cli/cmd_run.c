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
	int detach, no_check, remove;
	/* What the options say; 0: nothing. The image's own stand otherwise. */
	struct service_check said;
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
static int read_span(const char *text, void *field)
{
	int64_t ms = duration_ns(text) / 1000000;

	*(int64_t *)field = ms;
	return ms > 0 ? 0 : -EINVAL;
}

static int read_check(const char *text, void *field)
{
	*(const char **)field = text;
	return *text ? 0 : -EINVAL;
}

static int read_log_size(const char *text, void *field)
{
	TRY(cli_read_size(text, field));
	return *(int64_t *)field < 4000 ? -EINVAL : 0;
}

#define SPAN(field) \
	OPT_READ(struct args, said.field, read_span, "a time such as 500ms, 30s or 1m30s")

/* Those with a bit need -d. */
static const struct option_row options[] = {
	{ NULL, 0, NULL, 0, "Services:", -2 },
	{ "detach", 'd', NULL, 0, "start a service in the background, and print its name", -2,
		OPT(struct args, detach) },
	{ "name", 0, "NAME", 0, "its name (default: the image's and some letters)", -2,
		OPT(struct args, name) },
	{ "restart", 0, "WHEN", 0,
		"start it again when it has ended: no (default), on-failure[:TIMES], always", -2,
		OPT_CALL(parse_restart), 1 },
	{ "rm", 0, NULL, 0, "forget it when it has ended", -2, OPT(struct args, remove) },
	{ "stop-signal", 0, "SIGNAL", 0, "the signal to end it (default: the image's, else TERM)",
		-2, OPT_READ(struct args, stop_signal, cli_read_signal, CLI_A_SIGNAL), 2 },
	{ "stop-timeout", 0, "SECONDS", 0, "from then to SIGKILL (default: 10)", -2,
		OPT_COUNT_OF(struct args, s.stop_ms, 0, INT_MAX / 1000, 1000), 4 },
	{ "log-size", 0, "SIZE", 0, "keep so much of its output (default: 10m)", -2,
		OPT_READ(struct args, s.log_size, read_log_size, "a size from 4k on, such as 10m"),
		8 },
	{ "log-file", 0, "FILE", 0, "append its output to this file, too, as it is", -2,
		OPT_FILE(struct args, log_file), 1024 },
	{ "health-cmd", 0, "COMMAND", 0,
		"check it with a line for sh in the container (default: the image's HEALTHCHECK)",
		-2,
		OPT_READ(struct args, check, read_check, "a command (--no-healthcheck has none)"),
		16 },
	{ "health-interval", 0, "TIME", 0, "between two checks (default: 30s)", -2, SPAN(interval),
		32 },
	{ "health-timeout", 0, "TIME", 0, "for one (default: 30s)", -2, SPAN(timeout), 64 },
	{ "health-retries", 0, "N", 0, "failures in a row that make it unhealthy (default: 3)", -2,
		OPT_COUNT(struct args, said.retries, 1, INT_MAX), 128 },
	{ "health-start-period", 0, "TIME", 0,
		"after its start, in which failures do not count (default: 0)", -2,
		SPAN(start_period), 256 },
	{ "health-start-interval", 0, "TIME", 0, "between checks in that time (default: 5s)", -2,
		SPAN(start_interval), 512 },
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
	if (o->in_place) {
		mlr_fail(err, ENOTSUP,
			"--writable: a container in the background is not found by a directory that is "
			"changed in place");
		return mlr_hint(err,
			"apptainer exec --writable DIR changes it; instance start --overlay DIR keeps "
			"changes elsewhere");
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
	if (a->check)
		strv_add_words(&a->said.test, "/bin/sh", "-c", a->check);
	service_check_take(&a->s.check, &a->said);
	if (a->stop_signal)
		a->s.stop_signal = a->stop_signal;
}

/* The path of a log file, whose directory has to be there, without links. The file itself may be
 * one, which the supervisor refuses. */
static int log_path(const char *file, char **ret, struct mlr_error *err)
{
	auto_free char *dir = path_dir(file), *real = realpath(dir, NULL);

	if (!real)
		return mlr_fail_errno(err, "--log-file '%s'", file);
	*ret = xasprintf("%s/%s", strcmp(real, "/") == 0 ? "" : real, path_base(file));
	return 0;
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
		TRY(log_path(a->log_file, &s->log_file, err));
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
	unsigned given = a->x.given & (a->s.restart == SERVICE_NO_RESTART ? ~1u : ~0u);
	const char *option = a->name && !a->remove ? "name" : NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	for (const struct option_row *o = options; given && !option; o++)
		option = o->given & given ? o->name : NULL;
	if (!option)
		return 0;
	mlr_fail(&err, EINVAL, "--%s is a service's: mlrun run without -d becomes the command",
		option);
	mlr_hint(&err,
		strcmp(option, "name") == 0
			? "-d starts a service; --write=NAME names the kept container; with --rm the name does not matter"
			: "-d --name NAME starts a service");
	return cli_fail_at(&err, "run");
}

int cmd_run(int argc, char **argv)
{
	static struct args a = { .s = SERVICE_INIT };
	int status;

	cli_exec_parse_with(argc, argv, options, keep_word, "IMAGE [--] [COMMAND [ARG...]]",
		"Run a command in an image, as mlrun exec does, or a service with -d.\v"
		"A service has a small supervisor of its own and needs no daemon: mlrun ps, logs, stop, "
		"restart and wait know it by its name, and mlrun exec --join NAME runs commands in it. "
		"The exit status is the command's own, with -d 0 when it runs; 125: mlrun failed, 126: "
		"the command could not be executed, 127: it was not found.",
		&a.x);
	status = a.detach ? 0 : refuse_service_options(&a);
	if (status != 0)
		return status;
	return a.detach ? detach(&a) : cli_exec_run(&a.x, NULL);
}
