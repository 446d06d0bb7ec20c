#include "web/judge.h"

#include "base/record.h"
#include "web/command.h"

#include <math.h>
#include <pthread.h>

#define EVERY_S   1.0
#define NEW_S     600.0 /* a run without a service may still be pulling its image */
#define ENDED_MAX 64    /* kept of one answer; the others at the next */

struct judge {
	struct index *index;
	char node[HOST_NAME_MAX + 1];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int due, ends;
};

/* An end to write down. */
struct ended {
	char *directory;
	struct run run; /* state, reason, ended */
};

/* A service, as mlrun ps lists it. */
struct service {
	char *name, *status, *ended;
	int exit_status;
};

static const struct record_row service_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct service, name), .flags = RECORD_NULL },
	{ "status", RECORD_TEXT, RECORD_AT(struct service, status), .flags = RECORD_NULL },
	{ "ended", RECORD_TEXT, RECORD_AT(struct service, ended), .flags = RECORD_NULL },
	{ "exit_status", RECORD_NUMBER, RECORD_AT(struct service, exit_status),
		.flags = RECORD_NULL },
	{ NULL },
};

struct judging {
	struct index *index;
	const char *node;
	struct service *v; /* [n] */
	size_t n;
	struct ended ended[ENDED_MAX];
	size_t n_ended;
	int any; /* runs that go on */
};

static const struct record_row list_row = { "", RECORD_LIST,
	RECORD_ITEMS(struct judging, v, n, service_rows) };

static int is_open(const struct run *r)
{
	return r->is_own && !r->has_end && r->wish.service;
}

static void see_open(void *ctx, struct run *r)
{
	((struct judging *)ctx)->any |= is_open(r);
}

static void set_state(struct judging *j, struct run *r, enum run_state state, char *reason)
{
	if (r->state != state)
		index_change(j->index, r);
	r->state = state;
	set_ptr(&r->reason, reason);
}

/* It has ended: it will be written down. */
static void end_run(struct judging *j, struct run *r, enum run_state state, char *reason, double at)
{
	struct ended *e;

	if (j->n_ended == ENDED_MAX) {
		free(reason);
		return;
	}
	set_state(j, r, state, reason);
	r->ended = at;
	r->has_end = 1;
	e = &j->ended[j->n_ended++];
	e->directory = xstrdup(r->directory);
	e->run = (struct run){
		.state = state, .ended = at, .reason = reason ? xstrdup(reason) : NULL
	};
}

/* Seconds since the epoch of "2026-01-31T08:15:00Z"; NAN: no time. */
static double time_of(const char *text)
{
	struct tm tm = { 0 };

	return text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) ? (double)timegm(&tm) : NAN;
}

/* The service of a run; one without a status: there is none. */
static struct service service_of(const struct judging *j, const struct run *r)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->v[i].name && strcmp(j->v[i].name, r->wish.service) == 0)
			return j->v[i];
	return (struct service){ 0 };
}

/* Judge a run of this node by its service. */
static void judge_service(struct judging *j, struct run *r)
{
	const struct service s = service_of(j, r);
	double at = time_of(s.ended);

	if (!s.status && mlr_epoch() - r->wish.created > NEW_S)
		end_run(j, r, RUN_LOST,
			xasprintf(
				"there is no service '%s' on this node any more", r->wish.service),
			mlr_epoch());
	else if (!s.status || strcmp(s.status, "starting") == 0)
		set_state(j, r, RUN_WAITING, NULL);
	else if (strcmp(s.status, "lost") == 0)
		end_run(j, r, RUN_LOST,
			xstrdup("its supervisor was killed, or the machine was restarted"),
			isnan(at) ? run_changed(r) : at);
	else if (strcmp(s.status, "exited") != 0)
		set_state(j, r, RUN_RUNNING, NULL);
	else if (s.exit_status)
		end_run(j, r, RUN_FAILED, xasprintf("exit status %d", s.exit_status), at);
	else
		end_run(j, r, RUN_SUCCEEDED, NULL, at);
}

static void judge(void *ctx, struct run *r)
{
	struct judging *j = ctx;
	const char *node = r->wish.node ? r->wish.node : "another node";

	if (is_open(r) && strcmp(node, j->node) == 0)
		judge_service(j, r);
	else if (is_open(r))
		set_state(j, r, RUN_UNKNOWN,
			xasprintf("it was started on %s, which knows how it goes", node));
}

static void write_ends(struct judging *j)
{
	for (size_t i = 0; i < j->n_ended; i++) {
		struct ended *e = &j->ended[i];
		auto_close int dir =
			open(e->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct mlr_error err = MLR_ERROR_INIT;

		/* One that is there is of a stop, or of another server. */
		if (dir >= 0 && run_write_end(dir, &e->run, 1, &err) < 0 && err.code != EEXIST)
			mlr_log_failure(MLR_WARNING, &err,
				"; how the run ended is known to this server only");
		free(e->directory);
		free(e->run.reason);
	}
}

static void learn(struct judge *a)
{
	const struct record_reader reader = { 0 };
	struct judging j = { .index = a->index, .node = a->node };
	json_t *services;

	index_lock(a->index);
	index_each(a->index, see_open, &j);
	index_unlock(a->index);
	if (!j.any || !(services = command_json("ps", "--all", "--json")))
		return;
	if (record_value(&reader, &list_row, services, &j) == 0) {
		index_lock(a->index);
		index_each(a->index, judge, &j);
		index_unlock(a->index);
	}
	for (size_t i = 0; i < j.n; i++)
		record_done(service_rows, &j.v[i]);
	free(j.v);
	json_decref(services);
	write_ends(&j);
}

static void *run_judge(void *arg)
{
	struct judge *a = arg;

	pthread_mutex_lock(&a->lock);
	while (!a->ends) {
		if (!a->due) {
			pthread_cond_wait(&a->changed, &a->lock);
			continue;
		}
		a->due = 0;
		pthread_mutex_unlock(&a->lock);
		learn(a);
		pthread_mutex_lock(&a->lock);
		if (!a->ends)
			mlr_cond_wait_ms(&a->changed, &a->lock, (long)(EVERY_S * 1000));
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

void judge_tick(struct judge *a)
{
	pthread_mutex_lock(&a->lock);
	if (!a->due) {
		a->due = 1;
		pthread_cond_broadcast(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
}

int judge_open(struct index *i, struct judge **ret, struct mlr_error *err)
{
	struct judge *a = xcalloc(1, sizeof(*a));
	int r;

	a->index = i;
	gethostname(a->node, sizeof(a->node) - 1);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	r = pthread_create(&a->thread, NULL, run_judge, a);
	if (r)
		free(a);
	else
		*ret = a;
	return mlr_result(err, -r, "start a thread");
}

void judge_close(struct judge **at)
{
	struct judge *a = take_ptr(at);

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->ends = 1;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	free(a);
}
