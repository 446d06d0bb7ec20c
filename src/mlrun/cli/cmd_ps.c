/* mlrun ps: lists the containers that run on this node, and the services. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/options.h"

#include "base/account.h"
#include "base/base.h"
#include "base/json.h"
#include "runtime/running.h"
#include "work/service.h"

#define COMMAND_WIDTH 60 /* columns of the table's last column */

struct args {
	struct cli_common common;
	int json, all;
	const char *project; /* or NULL */
};

/* A container, a service, or both. */
struct row {
	const struct running *running; /* NULL: it has no container */
	const struct service *service; /* NULL: it is none */
};

struct rows {
	struct running_list running;
	struct service_list services;
	struct row *v;
	size_t n;
};

static void rows_done(struct rows *l)
{
	running_list_done(&l->running);
	service_list_done(&l->services);
	free(l->v);
}

static char *user_name(uid_t uid)
{
	auto_call(account_done) struct account a = ACCOUNT_INIT;

	account_find_user(uid, &a);
	return a.user ? xstrdup(a.user) : xasprintf("%u", (unsigned)uid);
}

/* --- rows ------------------------------------------------------------------------------------ */

static void add(struct rows *l, const struct running *running, const struct service *service)
{
	l->v = xgrow(l->v, l->n, sizeof(*l->v));
	l->v[l->n++] = (struct row){ running, service };
}

static const struct service *service_of(const struct rows *l, const struct running *r)
{
	for (size_t i = 0; i < l->services.n; i++) {
		const struct service *s = &l->services.v[i];

		if (s->status != SERVICE_EXITED && s->inside == r->container.id)
			return s;
	}
	return NULL;
}

static int is_of_project(const struct args *a, const struct service *s)
{
	return !a->project || (s && s->project && strcmp(s->project, a->project) == 0);
}

static int has_row(const struct rows *l, const struct service *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].service == s)
			return 1;
	return 0;
}

static int read_services(const struct args *a, struct rows *l, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	int r = store_open(a->common.store, 0, &st, err);

	if (r == 0)
		r = service_list_read(st, &l->services, err);
	/* There is no store, or it is another user's, whose containers root sees. */
	return r == -ENOENT || r == -EPERM || r == -EACCES ? 0 : r;
}

static int read_rows(const struct args *a, struct rows *l, struct mlr_error *err)
{
	TRY(running_find(&l->running, err));
	TRY(read_services(a, l, err));
	for (size_t i = 0; i < l->running.n; i++) {
		const struct service *s = service_of(l, &l->running.v[i]);

		if (is_of_project(a, s))
			add(l, &l->running.v[i], s);
	}
	for (size_t i = 0; i < l->services.n; i++) {
		const struct service *s = &l->services.v[i];

		if (!has_row(l, s) && is_of_project(a, s) && (a->all || !service_has_ended(s)))
			add(l, NULL, s);
	}
	return 0;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *moment(int64_t seconds)
{
	char text[CLI_TIME_SIZE];

	if (seconds <= 0)
		return json_null();
	cli_time_utc(seconds, text);
	return json_string(text);
}

static uid_t owner_of(const struct row *r)
{
	return r->running ? r->running->container.owner : geteuid();
}

static int64_t started(const struct row *r)
{
	return r->running ? r->running->started : r->service->started / 1000;
}

static const char *image_of(const struct row *r)
{
	return r->running ? r->running->container.image : r->service->image;
}

static const struct strv *command_of(const struct row *r)
{
	return r->running ? &r->running->command : &r->service->command;
}

static json_t *count(int64_t n, int known)
{
	return known ? json_integer(n) : json_null();
}

/* Add the keys that only a service has. */
static void add_service(json_t *o, const struct service *s)
{
	const char *health = s ? service_health_names[s->health] : NULL;
	int ended = s && s->exit_status >= 0;

	json_object_set_new(o, "name", mlr_json_text(s ? s->name : NULL));
	json_object_set_new(
		o, "status", json_string(s ? service_status_names[s->status] : "running"));
	json_object_set_new(o, "health", mlr_json_text(health));
	json_object_set_new(o, "health_output", mlr_json_text(s ? s->said : NULL));
	json_object_set_new(o, "restarts", count(s ? s->restarts : 0, s != NULL));
	json_object_set_new(o, "exit_status", count(s ? s->exit_status : 0, ended));
	json_object_set_new(o, "ended", ended ? moment(s->ended / 1000) : json_null());
	json_object_set_new(o, "project", mlr_json_text(s ? s->project : NULL));
	json_object_set_new(o, "service", mlr_json_text(s ? s->part : NULL));
	json_object_set_new(o, "replica", count(s ? s->replica : 0, s && s->project));
}

static json_t *to_json(const struct row *r)
{
	auto_free char *user = user_name(owner_of(r));
	const struct running *in = r->running;
	json_t *o = json_pack("{s:o, s:I, s:o, s:o, s:I, s:o, s:b, s:o}", "pid",
		count(in ? in->pid : 0, in != NULL), "processes",
		(json_int_t)(in ? in->processes : 0), "image", mlr_json_text(image_of(r)), "user",
		mlr_json_text(user), "uid", (json_int_t)owner_of(r), "started", moment(started(r)),
		"shared", in && in->container.keys.word[0] != '\0', "command",
		mlr_json_texts(command_of(r)));

	add_service(o, r->service);
	return o;
}

static int print_json(const struct rows *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(list, to_json(&l->v[i]));
	return cli_print_json(list);
}

/* --- table ----------------------------------------------------------------------------------- */

static void print_command(const struct row *r)
{
	const struct strv *command = command_of(r);
	auto_free char *line = strv_join(command, command->n, " ");

	if (strlen(line) > COMMAND_WIDTH)
		strcpy(line + COMMAND_WIDTH - 3, "...");
	cli_print_safe(line);
	putchar('\n');
}

/* "running (healthy), 2 restarts"; to free() */
static char *status_of(const struct row *r)
{
	const struct service *s = r->service;
	const char *health = s ? service_health_names[s->health] : NULL;
	auto_free char *restarts = NULL;

	if (!s)
		return xstrdup("-");
	restarts = s->restarts == 0
		? xstrdup("")
		: xasprintf(", %ld restart%s", s->restarts, s->restarts == 1 ? "" : "s");
	if (s->status == SERVICE_EXITED || s->status == SERVICE_RESTARTING)
		return xasprintf(
			"%s (%d)%s", service_status_names[s->status], s->exit_status, restarts);
	if (health)
		return xasprintf("%s (%s)%s", service_status_names[s->status],
			s->health == SERVICE_NOT_YET ? "health starting" : health, restarts);
	return xasprintf("%s%s", service_status_names[s->status], restarts);
}

/* The columns of the table that are as wide as what is in them. */
struct widths {
	int user, name, status, image;
};

static void print_row(const struct row *r, int with_user, const struct widths *w)
{
	auto_free char *user = user_name(owner_of(r)), *status = status_of(r);
	const char *image = image_of(r);
	char when[CLI_TIME_SIZE];

	if (r->running)
		printf("%7ld  %9zu  ", (long)r->running->pid, r->running->processes);
	else
		printf("%7s  %9d  ", "-", 0);
	if (with_user)
		printf("%-*s  ", w->user, user);
	if (w->name)
		printf("%-*s  %-*s  ", w->name, r->service ? r->service->name : "-", w->status,
			status);
	cli_time_local(started(r), when);
	cli_print_safe(image);
	printf("%*s  %-16s  ", w->image - (int)strlen(image), "", when);
	print_command(r);
}

/* A column without anything in it is left out. */
static int print_table(const struct rows *l, int with_user)
{
	struct widths w = { .user = (int)strlen("USER"), .image = (int)strlen("IMAGE") };

	for (size_t i = 0; i < l->n; i++) {
		const struct row *r = &l->v[i];
		auto_free char *user = user_name(owner_of(r)), *status = status_of(r);

		cli_widen(&w.user, user);
		cli_widen(&w.image, image_of(r));
		cli_widen(&w.status, status);
		if (r->service)
			cli_widen(&w.name, r->service->name);
	}
	if (w.name)
		cli_widen(&w.name, "NAME"), cli_widen(&w.status, "STATUS");
	printf("%7s  %9s  ", "PID", "PROCESSES");
	if (with_user)
		printf("%-*s  ", w.user, "USER");
	if (w.name)
		printf("%-*s  %-*s  ", w.name, "NAME", w.status, "STATUS");
	printf("%-*s  %-16s  %s\n", w.image, "IMAGE", "STARTED", "COMMAND");
	for (size_t i = 0; i < l->n; i++)
		print_row(&l->v[i], with_user, &w);
	return 0;
}

/* --------------------------------------------------------------------------------------------- */

int cmd_ps(int argc, char **argv)
{
	static const struct cli_option options[] = { { "all", 'a', NULL, 0,
							     "also services that have ended", 0,
							     CLI_TO(struct args, all) },
		{ "project", 'p', "NAME", 0, "only services of this project of mlrun up", 0,
			CLI_TO(struct args, project) },
		CLI_OPTION_JSON(struct args), { 0 } };
	static const struct cli_syntax syntax = { .options = options,
		.surplus = "expected no argument",
		.doc = "List the caller's running containers and services on this node; root sees everybody's "
		       "containers.\v"
		       "`mlrun exec --join PID|NAME` runs a command in one; `mlrun containers` lists what exec "
		       "--write keeps, running or not." };
	auto_call(rows_done) struct rows l = { .n = 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { .json = 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (read_rows(&a, &l, &err) < 0)
		return cli_fail(&err);
	return a.json ? print_json(&l) : print_table(&l, geteuid() == 0);
}
