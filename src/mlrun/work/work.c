#include "work/work.h"

#include "base/base.h"
#include "base/escape.h"
#include "work/parts.h"
#include "work/slurm.h"

#define SLURM_MS 2000 /* between two questions to Slurm */
#define STOP_S   40   /* longer than a supervisor lets an elastic run's command end */

int64_t work_later(int64_t last, int64_t first, int64_t most)
{
	return last <= 0 ? first : last > most / 2 ? most : 2 * last;
}

char *work_program(void)
{
	char *path = realpath("/proc/self/exe", NULL);

	return path ? path : xstrdup("mlrun");
}

/* --- the systems -------------------------------------------------------------------------- */

/* The state of all workers of a system at one moment. */
struct view {
	struct slurm_jobs jobs;
};

struct system {
	const char *name;
	/* Start one whose files are there. */
	int (*start)(struct store *st, struct worker *w, const struct strv *further,
		struct mlr_error *err);
	/* Ask about all. NULL: there is nobody to ask. */
	int (*ask)(struct view *v, struct mlr_error *err);
	/* Set the status of one that has not ended by its files. */
	void (*look)(struct store *st, const struct view *v, struct worker *w);
	/* Begin to end those. */
	int (*cancel)(struct store *st, const struct worker_list *l, struct mlr_error *err);
	/* The words before a command on its node; or get there. */
	void (*step)(const struct worker *w, int tty, struct strv *ret);
};

/* The line for sh that runs a worker's supervisor, to free(). */
static char *hold_line(const struct store *st, const struct worker *w)
{
	auto_free char *program = work_program(), *quoted = escape_for_sh(program),
		       *store = escape_for_sh(store_path(st));

	return xasprintf("exec %s workers hold --store=%s %s", quoted, store, w->key);
}

static void cancel_one(const char *id)
{
	auto_strv struct strv ids = STRV_INIT;

	strv_add(&ids, id);
	slurm_cancel(&ids, NULL);
}

static int start_job(
	struct store *st, struct worker *w, const struct strv *further, struct mlr_error *err)
{
	auto_free char *log = worker_path(st, w, "log"), *line = hold_line(st, w);
	int r;

	TRY(worker_write(st, w, err));
	TRY(slurm_submit(w, log, line, further, &w->id, err));
	/* Until this is written the job's comment names the worker. */
	r = worker_write(st, w, err);
	if (r < 0)
		cancel_one(w->id);
	return r;
}

static int ask_slurm(struct view *v, struct mlr_error *err)
{
	slurm_jobs_done(&v->jobs);
	return slurm_jobs_read(SLURM_OWN, &v->jobs, err);
}

static void set(char **text, const char *to)
{
	free(*text);
	*text = to ? xstrdup(to) : NULL;
}

/* The files are newer than Slurm's answer: what began after it is no job yet. */
static void look_at_job(struct store *st, const struct view *v, struct worker *w)
{
	const struct slurm_job *j = slurm_job_of(&v->jobs, w);

	(void)st;
	set(&w->state, j ? j->state : w->last);
	set(&w->reason, j && strcmp(j->reason, "None") != 0 ? j->reason : NULL);
	if (w->state)
		w->status = slurm_status(w->state);
	else
		w->status = time(NULL) - w->created < WORK_NEW_S ? WORKER_PENDING : WORKER_LOST;
	if (j && !w->id)
		w->id = xstrdup(j->id);
	if (j && !w->node && *j->node)
		w->node = xstrdup(j->node);
	if (w->status <= WORKER_STARTING && w->process)
		w->status = w->pid > 0 ? WORKER_RUNNING : WORKER_STARTING;
}

static int cancel_jobs(struct store *st, const struct worker_list *l, struct mlr_error *err)
{
	auto_strv struct strv ids = STRV_INIT;

	(void)st;
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].system, "slurm") == 0)
			strv_add(&ids, l->v[i].id);
	return ids.n > 0 ? slurm_cancel(&ids, err) : 0;
}

static int start_here(
	struct store *st, struct worker *w, const struct strv *further, struct mlr_error *err)
{
	(void)further;
	return local_start(st, w, err);
}

static void look_here(struct store *st, const struct view *v, struct worker *w)
{
	(void)v;
	local_look(st, w);
}

static int cancel_here(struct store *st, const struct worker_list *l, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++)
		if (strcmp(l->v[i].system, "local") == 0)
			r = local_cancel(st, &l->v[i], err);
	return r;
}

static void step_here(const struct worker *w, int tty, struct strv *ret)
{
	(void)tty;
	(void)ret;
	local_enter(w);
}

static const struct system systems[] = {
	{ "slurm", start_job, ask_slurm, look_at_job, cancel_jobs, slurm_step },
	{ "local", start_here, NULL, look_here, cancel_here, step_here },
};

static const struct system *system_of(const struct worker *w)
{
	for (size_t i = 0; i < ARRAY_LEN(systems); i++)
		if (strcmp(systems[i].name, w->system) == 0)
			return &systems[i];
	return NULL;
}

/* --- start -------------------------------------------------------------------------------- */

int work_start(struct store *st, int local, struct worker *w, const struct strv *further,
	struct mlr_error *err)
{
	const char *name = local || !slurm_is_here() ? "local" : "slurm";
	int r;

	set(&w->system, name);
	if (!w->directory)
		w->directory = getcwd(NULL, 0);
	if (!w->directory)
		return mlr_fail_errno(err, "the working directory");
	w->created = time(NULL);
	TRY(worker_make(st, w, err));
	r = system_of(w)->start(st, w, further, err);
	if (r < 0)
		worker_remove(st, w, NULL);
	else
		w->status = WORKER_PENDING;
	return r;
}

/* --- look --------------------------------------------------------------------------------- */

static void view_done(struct view *v)
{
	slurm_jobs_done(&v->jobs);
}

/* Take the exit status from the worker's files. If Slurm's limit ended it, the command may have
 * exited on the signal before the supervisor got it. */
static void judge_end(struct worker *w)
{
	if (strcmp(w->why ? w->why : "", "deadline") == 0)
		w->status = WORKER_TIMEDOUT;
	else if (w->state && (w->status == WORKER_STOPPED || w->status == WORKER_TIMEDOUT))
		return;
	else if (strcmp(w->why ? w->why : "", "exit") == 0)
		w->status = w->exit_status == 0 ? WORKER_SUCCEEDED : WORKER_FAILED;
	else if (w->status != WORKER_TIMEDOUT && w->status != WORKER_FAILED)
		w->status = WORKER_STOPPED;
}

static void judge(struct store *st, const struct view *v, struct worker *w)
{
	system_of(w)->look(st, v, w);
	if (!w->ended)
		return;
	/* The system's words are of an earlier moment, and why it waited no longer counts. */
	if (!worker_has_ended(w))
		set(&w->state, NULL);
	set(&w->reason, NULL);
	judge_end(w);
}

/* Slurm forgets a job after some minutes (MinJobAge). */
static void keep_last(struct store *st, struct worker *w)
{
	struct mlr_error err;

	if (!worker_has_ended(w) || w->ended || w->last || !w->state)
		return;
	w->last = xstrdup(w->state);
	if (worker_write(st, w, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, ", so how the worker ended will be forgotten");
}

/* Ask each system that one of them is of. Without an answer what files say of those that ended is
 * enough. */
static int ask_all(const struct worker_list *l, struct view *v, struct mlr_error *err)
{
	for (size_t s = 0; s < ARRAY_LEN(systems); s++) {
		struct mlr_error why = MLR_ERROR_INIT;
		int some = 0, needed = 0, r;

		for (size_t i = 0; i < l->n; i++)
			if (system_of(&l->v[i]) == &systems[s]) {
				some = 1;
				needed = needed || !l->v[i].ended;
			}
		r = some && systems[s].ask ? systems[s].ask(v, &why) : 0;
		if (r < 0 && needed) {
			*err = why;
			return r;
		}
	}
	return 0;
}

/* Read its files again; they may have been removed meanwhile. */
static void read_again(struct store *st, struct worker *w)
{
	struct worker now = WORKER_INIT;
	enum worker_status status = w->status;

	if (worker_read(st, w->key, &now, NULL) < 0)
		return;
	worker_done(w);
	*w = now;
	w->status = status;
}

int work_look(struct store *st, struct worker_list *l, struct mlr_error *err)
{
	auto_call(view_done) struct view v = { SLURM_JOBS_INIT };
	int r = ask_all(l, &v, err);

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		read_again(st, &l->v[i]);
		judge(st, &v, &l->v[i]);
		keep_last(st, &l->v[i]);
	}
	return r;
}

/* Drop worker i from the list. */
static void drop(struct worker_list *l, size_t i)
{
	worker_done(&l->v[i]);
	memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof(*l->v));
	l->n--;
}

/* When it was last heard of: its log, or the last that Slurm said of it. */
static int64_t last_written(struct store *st, const struct worker *w)
{
	static const char *const files[] = { "worker.json", "log" };
	int64_t last = w->created;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = worker_path(st, w, files[i]);
		struct stat s;

		if (lstat(path, &s) == 0 && s.st_mtime > last)
			last = s.st_mtime;
	}
	return last;
}

int work_list(struct store *st, struct worker_list *ret, struct mlr_error *err)
{
	time_t now = time(NULL);
	int r = worker_read_all(st, ret, err);

	for (size_t i = 0; r == 0 && i < ret->n;)
		if (system_of(&ret->v[i]))
			i++;
		else /* a newer mlrun's */
			drop(ret, i);
	if (r == 0)
		r = work_look(st, ret, err);
	for (size_t i = 0; r == 0 && i < ret->n;) {
		struct worker *w = &ret->v[i];
		int64_t last = w->ended ? w->ended : last_written(st, w);

		if (worker_has_ended(w) && now - last > WORK_KEEP_S)
			worker_remove(st, w, NULL);
		/* Without an id its start is under way, or was killed before there was a job. */
		if (!w->id || (worker_has_ended(w) && now - last > WORK_KEEP_S))
			drop(ret, i);
		else
			i++;
	}
	return r;
}

/* --- await, stop -------------------------------------------------------------------------- */

static int is_reached(const struct worker *w, enum work_until until)
{
	return worker_has_ended(w) || (until == WORK_READY && w->status == WORKER_RUNNING);
}

/* Often for ten seconds, since a job starts in one; seldomer for many workers, whose files are on a
 * server perhaps. */
static void pause_for(size_t workers, int64_t waited_ms)
{
	long ms = (waited_ms < 10000 ? 20 : 200) + 2 * (long)(workers < 100 ? workers : 100);
	struct timespec nap = { 0, ms * 1000000 };

	nanosleep(&nap, NULL);
}

int work_await(struct store *st, struct worker_list *l, enum work_until until, double seconds,
	struct mlr_error *err)
{
	auto_call(view_done) struct view v = { SLURM_JOBS_INIT };
	int64_t begin = mlr_now_ms(), asked = INT64_MIN / 2;

	for (;;) {
		int64_t now = mlr_now_ms();
		size_t left = 0;

		if (now - asked >= SLURM_MS) {
			int r = ask_all(l, &v, err);

			if (r < 0)
				return r;
			asked = now;
		}
		for (size_t i = 0; i < l->n; i++) {
			if (is_reached(&l->v[i], until) && asked != now)
				continue;
			read_again(st, &l->v[i]);
			judge(st, &v, &l->v[i]);
			keep_last(st, &l->v[i]);
			left += !is_reached(&l->v[i], until);
		}
		if (left == 0)
			return 0;
		if (seconds >= 0 && (double)(now - begin) >= seconds * 1000)
			return mlr_fail(err, ETIMEDOUT, "after %g seconds %zu of %zu workers %s",
				seconds, left, l->n,
				until == WORK_READY ? "are not ready" : "have not ended");
		pause_for(left, now - begin);
	}
}

int work_stop(struct store *st, struct worker_list *l, struct mlr_error *err)
{
	struct worker_list alive = { xcalloc(l->n + 1, sizeof(*l->v)), 0 };
	int r = 0;

	for (size_t i = 0; i < l->n; i++) /* borrowed */
		if (!worker_has_ended(&l->v[i]))
			alive.v[alive.n++] = l->v[i];
	for (size_t s = 0; r == 0 && s < ARRAY_LEN(systems); s++)
		r = systems[s].cancel(st, &alive, err);
	free(alive.v);
	return r < 0 ? r : work_await(st, l, WORK_DONE, STOP_S, err);
}

/* --- use ---------------------------------------------------------------------------------- */

void work_enter(const struct worker *w, int tty, struct strv *ret)
{
	system_of(w)->step(w, tty, ret);
	strv_take(ret, work_program());
	strv_add(ret, "exec");
	strv_addf(ret, "--join=%ld", (long)w->pid);
	strv_add(ret, "--");
}

static int is_named(const struct worker *w, const char *text)
{
	auto_free char *host = worker_host(w);

	return strcmp(w->id, text) == 0 || strcmp(host, text) == 0;
}

int work_find(const struct worker_list *l, const char *text, struct mlr_error *err)
{
	auto_strv struct strv there = STRV_INIT;
	auto_free char *all = NULL;
	int found = -1;

	/* The newest first: Slurm may have begun to count its jobs anew. */
	for (size_t i = l->n; i-- > 0;)
		if (is_named(&l->v[i], text))
			return (int)i;
	for (size_t i = 0; i < l->n; i++) {
		const struct worker *w = &l->v[i];

		if (w->status != WORKER_RUNNING ||
			((!w->node || strcmp(w->node, text) != 0) &&
				(!w->address || strcmp(w->address, text) != 0)))
			continue;
		strv_take(&there, worker_host(w));
		found = (int)i;
	}
	if (there.n == 1)
		return found;
	if (there.n == 0) {
		mlr_fail(err, ENOENT, "no worker of yours is '%s'", text);
		return mlr_hint(err, "mlrun workers list shows them");
	}
	all = strv_join_within(&there, 400, ", ");
	mlr_fail(err, EEXIST, "%zu workers are on '%s'", there.n, text);
	return mlr_hint(err, "name one: %s", all);
}
