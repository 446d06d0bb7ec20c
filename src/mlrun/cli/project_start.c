#include "cli/project.h"

#include "cli/cli.h"
#include "cli/services.h"
#include "work/forward.h"
#include "work/supervisor.h"

#define LOOK_MS 50

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

static int await_one(struct project_start *u, const char *name, enum compose_condition condition,
	struct mlr_error *err)
{
	int r = 0;

	while (r == 0 && !*u->interrupted) {
		auto_call(service_done) struct service now = SERVICE_INIT;

		r = service_get(u->st, name, &now, err);
		if (r == 0)
			r = is_met(&now, condition, err);
		if (r == 0)
			mlr_sleep_ms(LOOK_MS);
	}
	return r < 0 ? r : *u->interrupted ? mlr_fail(err, EINTR, "interrupted") : 0;
}

/* They stand before it in the list. */
static int await_needs(
	struct project_start *u, const struct compose_service *c, struct mlr_error *err)
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

static int is_of_project(const struct project_start *u, const struct service *s)
{
	return s->project && strcmp(s->project, u->p->name) == 0;
}

/* Stop what runs under this name if it is an older one of the project's. Returns 1 if it is what is
 * wanted; 0; -errno. */
static int make_way(struct project_start *u, const struct service *s, struct mlr_error *err)
{
	auto_call(service_done) struct service old = SERVICE_INIT;

	if (service_get(u->st, s->name, &old, NULL) < 0 || service_has_ended(&old) ||
		!is_of_project(u, &old))
		return 0;
	if (!u->again && old.digest && strcmp(old.digest, s->digest) == 0) {
		int r = 0;

		if (old.order != s->order) {
			old.order = s->order;
			r = service_write_wish(u->st, &old, err);
		}
		return r < 0 ? r : 1;
	}
	mlr_info("%s %s: stopping it", s->name, u->again ? "is started anew" : "has changed");
	return service_stop(u->st, &old, u->timeout_ms, err);
}

/* Was something started anew after which this service shall be, too? */
static int needs_restart(const struct project_start *u, const struct compose_service *c)
{
	for (size_t i = 0; i < c->n_needs; i++)
		if (c->needs[i].restart && strv_has(&u->fresh, c->needs[i].service))
			return 1;
	return 0;
}

/* It runs unchanged. */
static int keep_one(struct project_start *u, const struct compose_service *c, struct service *s)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int restarts = needs_restart(u, c), r = service_write_hosts(u->st, s, &err);

	if (restarts || !u->one_off)
		mlr_info("%s %s", s->name, restarts ? "restarts after what it needs" : "runs");
	if (r == 0 && restarts)
		r = service_restart(u->st, s, u->timeout_ms, &err);
	return r < 0 ? cli_fail_at(&err, "%s '%s'", u->command, s->name) : 0;
}

/* Returns 0 or an exit status. */
static int start_one(struct project_start *u, const struct compose_service *c, struct service *s)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = make_way(u, s, &err), status;

	if (r < 0)
		return cli_fail_at(&err, "%s '%s'", u->command, s->name);
	if (r == 1)
		return keep_one(u, c, s);
	status = services_launch(u->st, s, u->command);
	if (status == 0)
		mlr_info("%s started", s->name);
	strv_add(&u->fresh, c->name);
	return status;
}

static int start_all_of(struct project_start *u, const struct compose_service *c, long order)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0, r = await_needs(u, c, &err);

	if (r < 0)
		return *u->interrupted ? 128 + *u->interrupted
				       : cli_fail_at(&err, "%s", u->command);
	for (long n = 1; status == 0 && c != u->one_off && !*u->interrupted && n <= c->replicas;
		n++) {
		struct service s = SERVICE_INIT;

		r = project_fill(u->p, c, n, order, u->store, u->st, &s, &err);
		if (r < 0)
			return cli_fail_at(&err, "%s '%s'", u->command, c->name);
		if (n == 1 && (c->is_narrow || (s.exposes && !c->has_ports)))
			strv_add(&u->open, c->name);
		status = start_one(u, c, &s);
		if (status != 0) {
			service_done(&s);
			break;
		}
		*xadd(u->list.v, u->list.n) = s;
	}
	return status;
}

/* Fetch before anything is started. */
static int bring_images(const struct project_start *u)
{
	int status = 0;

	for (size_t i = 0; status == 0 && i < u->p->compose.n; i++)
		if (project_starts(&u->p->compose.services[i]))
			status = project_bring(
				u->p, &u->p->compose.services[i], u->store, u->build, u->pull);
	return status;
}

static int has_its_name(
	const struct project_start *u, const struct compose_service *c, const struct service *s)
{
	auto_free char *name = project_name_of(u->p, c, s->replica);

	return strcmp(name, s->name) == 0;
}

/* Stop surplus replicas; warn about services that the file no longer has. */
static int remove_surplus(struct project_start *u, struct mlr_error *err)
{
	auto_call(service_list_done) struct service_list all = { 0 };
	int r = service_list_read(u->st, &all, err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		struct service *s = &all.v[i];
		const struct compose_service *c;

		/* What compose run has started is no replica, and another profile's service stays.
		 */
		if (!is_of_project(u, s) || (s->replica == 0 && !u->remove_orphans) ||
			strv_has(&u->p->compose.others, s->part))
			continue;
		c = compose_find(&u->p->compose, s->part);
		if (c && s->replica <= c->replicas && has_its_name(u, c, s))
			continue;
		if (!c && !u->remove_orphans) {
			mlr_warning("%s is not in '%s' any more; --remove-orphans ends it", s->name,
				u->p->files.v[0]);
			continue;
		}
		mlr_info("stopping %s", s->name);
		r = service_stop(u->st, s, u->timeout_ms, err);
		if (r == 0)
			r = service_forget(u->st, s, err);
	}
	return r;
}

/* Docker's users expect that only the project itself reaches them. */
static void tell_open(const struct project_start *u)
{
	auto_free char *names = strv_join(&u->open, u->open.n, ", ");

	if (u->open.n > 0)
		mlr_info(
			"%s: reachable for others too, whatever 'ports' says: services use this machine's network; "
			"mlrun-up(1), Ports, says how to close them",
			names);
}

/* Ports that are root's: nobody shall wait for images before that is said. */
static int check_ports(const struct project_start *u)
{
	int status = 0;

	for (size_t i = 0; i < u->p->compose.n; i++) {
		const struct compose_service *c = &u->p->compose.services[i];
		struct mlr_error err = MLR_ERROR_INIT;

		if (project_starts(c) && forward_may(&c->ports, &err) < 0)
			status = cli_fail_at(&err, "%s '%s'", u->command, c->name);
	}
	return status;
}

/* Of two at once the second waits, until a signal ends that, and sees what the first has started.
 */
static int lock_project(const struct project_start *u, struct mlr_error *err)
{
	auto_free char *path = xasprintf(PROJECT_VOLUMES "/%s", u->p->name);
	int is_waiting = 0, lock;

	TRY(file_mkdir_p(store_fd(u->st), path, 0700, err));
	for (int told = 0; !*u->interrupted; told = 1) {
		lock = supervisor_lock(u->st, path, O_RDONLY | O_DIRECTORY, &is_waiting, err);
		if (!is_waiting)
			return lock;
		if (!told)
			mlr_info("project '%s' is being started by another process: waiting",
				u->p->name);
		mlr_sleep_ms(100);
	}
	return mlr_fail(err, EINTR, "interrupted while another process starts the project");
}

int project_start(struct project_start *u)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_close int lock = -1;
	int status = u->no_start ? 0 : check_ports(u);

	if (status == 0)
		status = bring_images(u);
	if (status != 0 || u->no_start)
		return status;
	if (store_open(u->store, 1, &u->st, &err) < 0 || (lock = lock_project(u, &err)) < 0 ||
		(!u->one_off && remove_surplus(u, &err) < 0) ||
		project_prepare(u->p, u->store, u->st, &err) < 0)
		return cli_fail_at(&err, "%s", u->command);
	for (size_t i = 0; status == 0 && !*u->interrupted && i < u->p->compose.n; i++) {
		const struct compose_service *c = &u->p->compose.services[i];

		if (project_starts(c))
			status = start_all_of(u, c, (long)i);
	}
	if (status == 0)
		tell_open(u);
	return status;
}

void project_start_done(struct project_start *u)
{
	service_list_done(&u->list);
	strv_done(&u->open);
	strv_done(&u->fresh);
	store_close(u->st);
}
