/* mlrun ps: lists the containers that run on this node, and the services. */
#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/options.h"

#include "base/json.h"
#include "runtime/running.h"
#include "work/service.h"

#define COMMAND_WIDTH 60 /* columns of the table's last column */

struct args {
	struct cli_common common;
	int json, all;
	const char *project; /* or NULL */
};

struct found {
	struct running_list running;
	struct service_list services;
};

static void found_done(struct found *l)
{
	running_list_done(&l->running);
	service_list_done(&l->services);
}

/* --- what there is -------------------------------------------------------------------------- */

static const struct service *service_of(const struct found *l, const struct running *r)
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

static int has_container(const struct found *l, const struct service *s)
{
	for (size_t i = 0; i < l->running.n; i++)
		if (service_of(l, &l->running.v[i]) == s)
			return 1;
	return 0;
}

static int read_services(const struct args *a, struct found *l, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	int r = store_open(a->common.store, 0, &st, err);

	if (r == 0)
		r = service_list_read(st, &l->services, err);
	/* There is no store, or it is another user's, whose containers root sees. */
	return r == -ENOENT || r == -EPERM || r == -EACCES ? 0 : r;
}

/* --- columns ------------------------------------------------------------------------------------
 */

/* "running (healthy), 2 restarts" */
static char *status_of(const struct service *s)
{
	const char *health = service_health_names[s->health];
	auto_free char *restarts = NULL;

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

static char *line_of(const struct strv *command)
{
	char *line = strv_join(command, command->n, " ");

	if (strlen(line) > COMMAND_WIDTH)
		strcpy(line + COMMAND_WIDTH - 3, "...");
	return line;
}

static void put_service(struct listing *l, const struct service *s)
{
	static const struct service nothing = SERVICE_INIT;
	int is_one = s != NULL, ended = is_one && s->exit_status >= 0;

	s = s ? s : &nothing;
	listing_text(l, "NAME", "name", s->name);
	listing_optional(l);
	listing_cell(l, "STATUS", is_one ? status_of(s) : NULL);
	listing_optional(l);
	listing_text(l, NULL, "status", is_one ? service_status_names[s->status] : "running");
	listing_text(l, NULL, "health", is_one ? service_health_names[s->health] : NULL);
	listing_text(l, NULL, "health_output", s->said);
	listing_known(l, NULL, "restarts", s->restarts, is_one);
	listing_known(l, NULL, "exit_status", s->exit_status, ended);
	listing_time(l, NULL, "ended", ended ? s->ended / 1000 : 0);
	listing_text(l, NULL, "project", s->project);
	listing_text(l, NULL, "service", s->part);
	listing_known(l, NULL, "replica", s->replica, s->project != NULL);
}

/* Put a container, a service, or both; either may be NULL. */
static void put(struct listing *l, const struct running *running, const struct service *s)
{
	static const struct running nothing;
	const struct running *in = running ? running : &nothing;
	const struct strv *command = running || !s ? &in->command : &s->command;
	uid_t uid = running ? in->container.owner : geteuid();
	auto_free char *user = cli_user_name(uid);

	listing_known(l, "PID", "pid", in->pid, running != NULL);
	listing_number(l, "PROCESSES", "processes", (int64_t)in->processes);
	listing_text(l, NULL, "user", user);
	if (geteuid() == 0)
		listing_cell(l, "USER", xstrdup(user));
	listing_number(l, NULL, "uid", uid);
	put_service(l, s);
	listing_text(l, "IMAGE", "image", running || !s ? in->container.image : s->image);
	listing_time(l, "STARTED", "started", running || !s ? in->started : s->started / 1000);
	listing_json(l, "shared", json_boolean(in->container.keys.word[0]));
	listing_json(l, "command", mlr_json_texts(command));
	listing_cell(l, "COMMAND", line_of(command));
}

static int print(const struct args *a, const struct found *found)
{
	struct listing l = { .as_json = a->json };

	for (size_t i = 0; i < found->running.n; i++) {
		const struct service *s = service_of(found, &found->running.v[i]);

		if (!is_of_project(a, s))
			continue;
		listing_row(&l);
		put(&l, &found->running.v[i], s);
	}
	for (size_t i = 0; i < found->services.n; i++) {
		const struct service *s = &found->services.v[i];

		if (has_container(found, s) || !is_of_project(a, s) ||
			(!a->all && service_has_ended(s)))
			continue;
		listing_row(&l);
		put(&l, NULL, s);
	}
	if (!l.rows) {
		listing_heads(&l);
		put(&l, NULL, NULL);
	}
	return listing_end(&l);
}

/* --------------------------------------------------------------------------------------------- */

int cmd_ps(int argc, char **argv)
{
	static const struct option_row options[] = {
		{ "all", 'a', NULL, 0, "also services that have ended", 0, OPT(struct args, all) },
		{ "project", 'p', "NAME", 0, "only services of this project of mlrun up", 0,
			OPT(struct args, project) },
		CLI_OPTION_JSON(struct args), { 0 }
	};
	static const struct cli_syntax syntax = { .s.options = options,
		.s.surplus = "expected no argument",
		.s.doc =
			"List the caller's running containers and services on this node; root sees everybody's "
			"containers.\v"
			"`mlrun exec --join PID|NAME` runs a command in one; `mlrun containers` lists what exec "
			"--write keeps, running or not." };
	auto_call(found_done) struct found l = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { .json = 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (running_find(&l.running, &err) < 0 || read_services(&a, &l, &err) < 0)
		return cli_fail(&err);
	return print(&a, &l);
}
