/* mlrun up and down: the services of a compose file. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/project.h"
#include "cli/services.h"

#include "base/proc.h"

struct args {
	struct cli_common common;
	struct project_wish w;
	struct project_start start;
	int detach, volumes, dry_run;
	size_t left; /* how many of the list are not stopped yet */
	int status;  /* of stopping them */
};

/* --- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void note(int sig)
{
	interrupted = sig;
}

static int is_interrupted(void *ctx)
{
	return interrupted;
}

/* --- stop ------------------------------------------------------------------------------------ */

static int stop_one(
	struct store *st, struct service *s, const struct args *a, int forget, const char *command)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (!service_has_ended(s))
		mlr_info("stopping %s", s->name);
	r = service_stop(st, s, a->start.timeout_ms, &err);
	if (r == 0 && forget)
		r = service_forget(st, s, &err);
	return r < 0 ? cli_fail_at(&err, "%s '%s'", command, s->name) : 0;
}

/* --- up -------------------------------------------------------------------------------------- */

static void read_again(struct args *u, struct service *s)
{
	struct service now = SERVICE_INIT;

	if (service_get(u->start.st, s->name, &now, NULL) < 0)
		return;
	service_done(s);
	*s = now;
}

/* Stop the last of the list that was not stopped yet. Returns 0 when there is none. */
static int stop_next(void *ctx)
{
	struct args *u = ctx;
	struct service *s;
	int status;

	if (u->left == 0)
		return 0;
	s = &u->start.list.v[--u->left];
	read_again(u, s);
	status = stop_one(u->start.st, s, u, 0, "up");
	u->status = status ? status : u->status;
	return 1;
}

/* Print until all have ended or a signal comes; then end all, and print what they say to that. */
static int attend(struct args *u, int status)
{
	struct services_output o = { .range.tail = -1,
		.follow = status == 0,
		.prefix = 1,
		.over = is_interrupted,
		.stop = stop_next,
		.ctx = u };
	struct mlr_error err = MLR_ERROR_INIT;

	u->left = u->start.list.n;
	if (u->start.st && services_print(u->start.st, &u->start.list, &o, &err) < 0)
		status = cli_fail_at(&err, "up");
	while (stop_next(u))
		;
	if (interrupted)
		return 128 + interrupted;
	return status ? status : u->status;
}

/* Print what would be started, in this order. */
static int print_plan(const struct project *p)
{
	for (size_t i = 0; i < p->compose.n; i++)
		for (long n = 1;
			p->compose.services[i].is_wanted && n <= p->compose.services[i].replicas;
			n++) {
			auto_free char *name = project_name_of(p, &p->compose.services[i], n),
				       *image = project_image_of(p, &p->compose.services[i]);

			printf("%s: %s\n", name, image);
		}
	return 0;
}

static int print_config(const struct project *p)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (!p->compose.text) {
		mlr_fail(&err, EFBIG, "'%s': the merged file is too long to be printed",
			p->files.v[0]);
		return cli_fail_at(&err, "up --config");
	}
	fputs(p->compose.text, stdout);
	return 0;
}

static int run_up(struct args *a)
{
	auto_call(project_done) struct project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	a->start.p = &p;
	a->start.command = "up";
	a->start.store = a->common.store;
	a->start.interrupted = &interrupted;
	if (project_read(&a->w, &p, &err) < 0)
		return cli_fail_at(&err, "up");
	if (a->w.config)
		return print_config(&p);
	if (a->dry_run)
		return print_plan(&p);
	/* The first signal stops all services; a second one stops only this command. */
	signal_catch_ends(note, (int)SA_RESETHAND);
	status = project_start(&a->start);
	if (!a->detach && !a->start.no_start)
		status = attend(a, status);
	else if (interrupted)
		status = 128 + interrupted;
	project_start_done(&a->start);
	return status;
}

/* A path is a file, as mlrun up FILE; other words are services. */
static void take_operand(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	size_t len = strlen(arg);
	int is_file = strcmp(arg, "-") == 0 || strchr(arg, '/') ||
		(len > 4 && strcmp(arg + len - 4, ".yml") == 0) ||
		(len > 5 && strcmp(arg + len - 5, ".yaml") == 0);

	strv_add(is_file ? &a->w.files : &a->w.names, arg);
}

#define TIMEOUT_ROW                                                                          \
	{                                                                                    \
		"timeout", 't', "SECONDS", 0, "to SIGKILL (default: each service's own)", 0, \
			OPT_COUNT_OF(struct args, start.timeout_ms, 0, INT_MAX / 1000, 1000) \
	}

static const char *const pulls[] = { "missing", "always", NULL };

int cmd_up(int argc, char **argv)
{
	static const struct option_row options[] = { { "detach", 'd', NULL, 0,
							     "return when all are started", 0,
							     OPT(struct args, detach) },
		{ "build", 0, NULL, 0, "build images again", 0, OPT(struct args, start.build) },
		{ "pull", 0, "WHEN", 0, "fetch images that are missing (default), or always", 0,
			OPT_WORD(struct args, start.pull, pulls) },
		{ "no-deps", 0, NULL, 0, "start the services named without what they need", 0,
			OPT(struct args, w.alone) },
		{ "no-start", 0, NULL, 0, "only fetch and build the images", 0,
			OPT(struct args, start.no_start) },
		{ "force-recreate", 0, NULL, 0, "start also unchanged services anew", 0,
			OPT(struct args, start.again) },
		{ "scale", 0, "SERVICE=N", 0, "start so many replicas", 0,
			OPT(struct args, w.scale) },
		{ "dry-run", 0, NULL, 0, "only read the files, and print what would start", 0,
			OPT(struct args, dry_run) },
		{ "config", 0, NULL, 0, "only read the files, and print them merged into one", 0,
			OPT(struct args, w.config) },
		{ "remove-orphans", 0, NULL, 0,
			"end services of the project that the file does not have", 0,
			OPT(struct args, start.remove_orphans) },
		PROJECT_ROWS(struct args), TIMEOUT_ROW, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[FILE] [SERVICE...]",
		.s.doc =
			"Start the services of a compose file, print what they print, and end them at Ctrl-C.",
		.s.operands = { OPT_CALL(take_operand) } };
	static struct args a = { .start.timeout_ms = -1 };

	cli_options_parse(argc, argv, &syntax, &a);
	return run_up(&a);
}

/* --- down ------------------------------------------------------------------------------------ */

static int run_down(struct args *a)
{
	auto_call(services_choice_done) struct services_choice c = { .names = a->w.names };
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *name = project_name(&a->w, &err);
	int r = name ? services_open(a->common.store, &st, &err) : -EINVAL, status = 0;

	a->w.names = (struct strv)STRV_INIT;
	c.project = name;
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = services_choose(st, &c, &err);
	if (r < 0 && r != -ENOENT) /* what is not there is down */
		return cli_fail_at(&err, "down");
	for (size_t i = c.list.n; i-- > 0;) {
		int one = stop_one(st, &c.list.v[i], a, 1, "down");

		status = one ? one : status;
	}
	if (status == 0 && a->volumes && project_forget_volumes(name, st, &err) < 0)
		return cli_fail_at(&err, "down");
	return status;
}

int cmd_down(int argc, char **argv)
{
	static const struct option_row options[] = { { "volumes", 'v', NULL, 0,
							     "remove its volumes, too", 0,
							     OPT(struct args, volumes) },
		{ "remove-orphans", 0, NULL, OPTION_HIDDEN, "all of the project end anyway", 0,
			OPT(struct args, start.remove_orphans) },
		PROJECT_ROWS(struct args), TIMEOUT_ROW, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[FILE] [SERVICE...]",
		.s.doc =
			"End the services of a compose file, those first that need others, and forget them.",
		.s.operands = { OPT_CALL(take_operand) } };
	static struct args a = { .start.timeout_ms = -1 };

	cli_options_parse(argc, argv, &syntax, &a);
	return run_down(&a);
}
