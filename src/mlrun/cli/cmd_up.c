/* mlrun up and down: the services of a compose file. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/project.h"
#include "cli/services.h"

#define LOOK_MS 50

struct args {
	struct cli_common common;
	struct project_wish w;
	int64_t timeout_ms;
	int detach, build, pull, no_start, again, remove_orphans, volumes, dry_run;
};

/* --- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void note(int sig)
{
	interrupted = sig;
}

/* The first signal stops all services; a second one stops only this command. */
static void catch_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = note, .sa_flags = SA_RESETHAND };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		sigaction(ends[i], &a, NULL);
}

static int is_interrupted(void *ctx)
{
	return interrupted;
}

/* --- start ----------------------------------------------------------------------------------- */

struct up {
	const struct args *a;
	const struct project *p;
	struct store *st;
	struct service_list list; /* what is there, in the order of starting */
	struct strv open;         /* services that others reach, though the file does not say so */
	struct strv fresh;        /* services that were started now */
	size_t left;              /* how many of the list are not stopped yet */
	int status;
};

/* Is the condition met? Returns 1; 0: not yet; -errno: it never will be. */
static int is_met(const struct service *s, enum compose_condition condition, struct mlr_error *err)
{
	if (condition == COMPOSE_COMPLETED && service_has_ended(s))
		return s->status == SERVICE_EXITED && s->exit_status == 0
			? 1
			: mlr_fail(err, ECHILD, "'%s' ended with %d", s->name, s->exit_status);
	if (condition == COMPOSE_COMPLETED)
		return 0;
	if (s->health == SERVICE_HEALTHY)
		return 1;
	if (service_has_ended(s) || s->health == SERVICE_UNHEALTHY)
		return mlr_fail(err, ECHILD, "'%s' is %s", s->name,
			service_has_ended(s) ? service_status_names[s->status] : "unhealthy");
	if (s->check.test.n == 0) {
		mlr_fail(err, EINVAL, "'%s' has no healthcheck", s->name);
		return mlr_hint(err, "services.%s.healthcheck says how to check it", s->part);
	}
	return 0;
}

static int await_one(
	struct up *u, const char *name, enum compose_condition condition, struct mlr_error *err)
{
	int r = 0;

	while (r == 0 && !interrupted) {
		auto_call(service_done) struct service now = SERVICE_INIT;

		r = service_get(u->st, name, &now, err);
		if (r == 0)
			r = is_met(&now, condition, err);
		if (r == 0)
			mlr_sleep_ms(LOOK_MS);
	}
	return r < 0 ? r : interrupted ? mlr_fail(err, EINTR, "interrupted") : 0;
}

/* They stand before it in the list. */
static int await_needs(struct up *u, const struct compose_service *c, struct mlr_error *err)
{
	for (size_t i = 0; i < c->n_needs; i++)
		for (size_t k = 0; k < u->list.n; k++) {
			int r;

			if (c->needs[i].condition == COMPOSE_STARTED ||
				strcmp(u->list.v[k].part, c->needs[i].service) != 0)
				continue;
			r = await_one(u, u->list.v[k].name, c->needs[i].condition, err);
			if (r < 0)
				return mlr_wrap(err, "service '%s' needs '%s'", c->name,
					c->needs[i].service);
		}
	return 0;
}

static int is_of_project(const struct up *u, const struct service *s)
{
	return s->project && strcmp(s->project, u->p->name) == 0;
}

/* Stop what runs under this name if it is an older one of the project's. Returns 1 if it is what is
 * wanted; 0; -errno. */
static int make_way(struct up *u, const struct service *s, struct mlr_error *err)
{
	auto_call(service_done) struct service old = SERVICE_INIT;

	if (service_get(u->st, s->name, &old, NULL) < 0 || service_has_ended(&old) ||
		!is_of_project(u, &old))
		return 0;
	if (!u->a->again && old.digest && strcmp(old.digest, s->digest) == 0) {
		int r = 0;

		if (old.order != s->order) {
			old.order = s->order;
			r = service_write_wish(u->st, &old, err);
		}
		return r < 0 ? r : 1;
	}
	mlr_info("%s %s: stopping it", s->name, u->a->again ? "is started anew" : "has changed");
	return service_stop(u->st, &old, u->a->timeout_ms, err);
}

/* Was something started anew after which this service shall be, too? */
static int needs_restart(const struct up *u, const struct compose_service *c)
{
	for (size_t i = 0; i < c->n_needs; i++)
		if (c->needs[i].restart && strv_has(&u->fresh, c->needs[i].service))
			return 1;
	return 0;
}

/* It runs unchanged. */
static int keep_one(struct up *u, const struct compose_service *c, struct service *s)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int restarts = needs_restart(u, c), r = service_write_hosts(u->st, s, &err);

	mlr_info("%s %s", s->name, restarts ? "restarts after what it needs" : "runs");
	if (r == 0 && restarts)
		r = service_restart(u->st, s, u->a->timeout_ms, &err);
	return r < 0 ? cli_fail_at(&err, "up '%s'", s->name) : 0;
}

/* Returns 0 or an exit status. */
static int start_one(struct up *u, const struct compose_service *c, struct service *s)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = make_way(u, s, &err), status;

	if (r < 0)
		return cli_fail_at(&err, "up '%s'", s->name);
	if (r == 1)
		return keep_one(u, c, s);
	status = services_launch(u->st, s, "up");
	if (status == 0)
		mlr_info("%s started", s->name);
	strv_add(&u->fresh, c->name);
	return status;
}

static int start_all_of(struct up *u, const struct compose_service *c, long order)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0, r = await_needs(u, c, &err);

	if (r < 0)
		return interrupted ? 128 + interrupted : cli_fail_at(&err, "up");
	for (long n = 1; status == 0 && !interrupted && n <= c->replicas; n++) {
		struct service s = SERVICE_INIT;

		r = project_fill(u->p, c, n, order, u->a->common.store, u->st, &s, &err);
		if (r < 0)
			return cli_fail_at(&err, "up '%s'", c->name);
		if (n == 1 && (c->is_narrow || (s.exposes && !c->has_ports)))
			strv_add(&u->open, c->name);
		status = start_one(u, c, &s);
		if (status != 0) {
			service_done(&s);
			break;
		}
		u->list.v = xgrow(u->list.v, u->list.n, sizeof(*u->list.v));
		u->list.v[u->list.n++] = s;
	}
	return status;
}

/* Fetch before anything is started. */
static int bring_images(const struct up *u)
{
	int status = 0;

	for (size_t i = 0; status == 0 && i < u->p->compose.n; i++)
		if (project_starts(&u->p->compose.services[i]))
			status = project_bring(u->p, &u->p->compose.services[i], u->a->common.store,
				u->a->build, u->a->pull);
	return status;
}

static const struct compose_service *part_of(const struct up *u, const struct service *s)
{
	for (size_t i = 0; i < u->p->compose.n; i++)
		if (strcmp(u->p->compose.services[i].name, s->part) == 0)
			return &u->p->compose.services[i];
	return NULL;
}

static int has_its_name(
	const struct up *u, const struct compose_service *c, const struct service *s)
{
	auto_free char *name = project_name_of(u->p, c, s->replica);

	return strcmp(name, s->name) == 0;
}

/* Stop surplus replicas; warn about services that the file no longer has. */
static int remove_surplus(struct up *u, struct mlr_error *err)
{
	auto_call(service_list_done) struct service_list all = { 0 };
	int r = service_list_read(u->st, &all, err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		struct service *s = &all.v[i];
		const struct compose_service *c;

		if (!is_of_project(u, s))
			continue;
		c = part_of(u, s);
		if (c && s->replica <= c->replicas && has_its_name(u, c, s))
			continue;
		if (!c && !u->a->remove_orphans) {
			mlr_warning("%s is not in '%s' any more; --remove-orphans ends it", s->name,
				u->p->files.v[0]);
			continue;
		}
		mlr_info("stopping %s", s->name);
		r = service_stop(u->st, s, u->a->timeout_ms, err);
		if (r == 0)
			r = service_forget(u->st, s, err);
	}
	return r;
}

/* Docker's users expect that only the project itself reaches them. */
static void tell_open(const struct up *u)
{
	auto_free char *names = strv_join(&u->open, u->open.n, ", ");

	if (u->open.n > 0)
		mlr_info(
			"%s: reachable for others too, whatever 'ports' says: services use this machine's network; "
			"mlrun-up(1), Ports, says how to close them",
			names);
}

static void tell_ignored(const struct project *p)
{
	auto_free char *keys = strv_join(&p->compose.ignored, p->compose.ignored.n, ", ");

	if (*keys)
		mlr_info(
			"ignored, as services have this machine's network and the caller's rights: %s",
			keys);
}

static int start_project(struct up *u)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int status = bring_images(u);

	if (status != 0 || u->a->no_start)
		return status;
	if (store_open(u->a->common.store, 1, &u->st, &err) < 0)
		return cli_fail_at(&err, "up");
	if (remove_surplus(u, &err) < 0 ||
		project_prepare(u->p, u->a->common.store, u->st, &err) < 0)
		return cli_fail_at(&err, "up");
	for (size_t i = 0; status == 0 && !interrupted && i < u->p->compose.n; i++)
		if (project_starts(&u->p->compose.services[i]))
			status = start_all_of(u, &u->p->compose.services[i], (long)i);
	if (status == 0)
		tell_open(u);
	return status;
}

/* --- stop ------------------------------------------------------------------------------------ */

static int stop_one(
	struct store *st, struct service *s, const struct args *a, int forget, const char *command)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (!service_has_ended(s))
		mlr_info("stopping %s", s->name);
	r = service_stop(st, s, a->timeout_ms, &err);
	if (r == 0 && forget)
		r = service_forget(st, s, &err);
	return r < 0 ? cli_fail_at(&err, "%s '%s'", command, s->name) : 0;
}

/* --- up -------------------------------------------------------------------------------------- */

static void read_again(struct up *u, struct service *s)
{
	struct service now = SERVICE_INIT;

	if (service_get(u->st, s->name, &now, NULL) < 0)
		return;
	service_done(s);
	*s = now;
}

/* Stop the last of the list that was not stopped yet. Returns 0 when there is none. */
static int stop_next(void *ctx)
{
	struct up *u = ctx;
	struct service *s;
	int status;

	if (u->left == 0)
		return 0;
	s = &u->list.v[--u->left];
	read_again(u, s);
	status = stop_one(u->st, s, u->a, 0, "up");
	u->status = status ? status : u->status;
	return 1;
}

/* Print until all have ended or a signal comes; then end all, and print what they say to that. */
static int attend(struct up *u, int status)
{
	struct services_output o = { .range.tail = -1,
		.follow = status == 0,
		.prefix = 1,
		.over = is_interrupted,
		.stop = stop_next,
		.ctx = u };
	struct mlr_error err = MLR_ERROR_INIT;

	u->left = u->list.n;
	if (u->st && services_print(u->st, &u->list, &o, &err) < 0)
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

static int run_up(const struct args *a)
{
	auto_call(project_done) struct project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct up u = { .a = a, .p = &p, .list = { 0 } };
	int status;

	if (project_read(&a->w, &p, &err) < 0)
		return cli_fail_at(&err, "up");
	tell_ignored(&p);
	if (a->w.config)
		return print_config(&p);
	if (a->dry_run)
		return print_plan(&p);
	catch_signals();
	status = start_project(&u);
	if (!a->detach && !a->no_start)
		status = attend(&u, status);
	else if (interrupted)
		status = 128 + interrupted;
	service_list_done(&u.list);
	strv_done(&u.open);
	strv_done(&u.fresh);
	store_close(u.st);
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
			OPT_COUNT_OF(struct args, timeout_ms, 0, INT_MAX / 1000, 1000)       \
	}

static void parse_pull(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->pull = strcmp(arg, "always") == 0;
	if (!a->pull && strcmp(arg, "missing") != 0)
		argp_error(state, "--pull takes missing or always, not '%s'", arg);
}

int cmd_up(int argc, char **argv)
{
	static const struct option_row options[] = { { "detach", 'd', NULL, 0,
							     "return when all are started", 0,
							     OPT(struct args, detach) },
		{ "build", 0, NULL, 0, "build images again", 0, OPT(struct args, build) },
		{ "pull", 0, "WHEN", 0, "fetch images that are missing (default), or always", 0,
			OPT_CALL(parse_pull) },
		{ "no-deps", 0, NULL, 0, "start the services named without what they need", 0,
			OPT(struct args, w.alone) },
		{ "no-start", 0, NULL, 0, "only fetch and build the images", 0,
			OPT(struct args, no_start) },
		{ "force-recreate", 0, NULL, 0, "start also unchanged services anew", 0,
			OPT(struct args, again) },
		{ "scale", 0, "SERVICE=N", 0, "start so many replicas", 0,
			OPT(struct args, w.scale) },
		{ "dry-run", 0, NULL, 0, "only read the files, and print what would start", 0,
			OPT(struct args, dry_run) },
		{ "config", 0, NULL, 0, "only read the files, and print them merged into one", 0,
			OPT(struct args, w.config) },
		{ "remove-orphans", 0, NULL, 0,
			"end services of the project that the file does not have", 0,
			OPT(struct args, remove_orphans) },
		PROJECT_ROWS(struct args), TIMEOUT_ROW, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[FILE] [SERVICE...]",
		.s.doc =
			"Start the services of a compose file, print what they print, and end them at Ctrl-C.",
		.s.operands = { OPT_CALL(take_operand) } };
	struct args a = { .timeout_ms = -1 };
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = run_up(&a);
	project_wish_done(&a.w);
	return status;
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
	if (r < 0)
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
			OPT(struct args, remove_orphans) },
		PROJECT_ROWS(struct args), TIMEOUT_ROW, { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[FILE] [SERVICE...]",
		.s.doc =
			"End the services of a compose file, those first that need others, and forget them.",
		.s.operands = { OPT_CALL(take_operand) } };
	struct args a = { .timeout_ms = -1 };
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	status = run_down(&a);
	project_wish_done(&a.w);
	return status;
}
