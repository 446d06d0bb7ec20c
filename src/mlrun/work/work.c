#include "work/work.h"
#include "work/batch.h"

#include "base/escape.h"
#include "base/filesystem.h"

#define SLURM_MS 2000 /* between two questions to Slurm */
#define ETAB_MAX (1u << 20)
#define STOP_S   40 /* longer than a supervisor lets an elastic run's command end */

int64_t work_later(int64_t last, int64_t first, int64_t most)
{
	return last <= 0 ? first : last > most / 2 ? most : 2 * last;
}

char *work_program(void)
{
	char *path = realpath("/proc/self/exe", NULL);

	return path ? path : xstrdup("mlrun");
}

/* --- batch systems --------------------------------------------------------------------------- */

static const struct batch *const batches[] = { &batch_slurm };

static const struct batch *batch_of(const struct worker *w)
{
	for (size_t i = 0; i < ARRAY_LEN(batches); i++)
		if (strcmp(batches[i]->name, w->system) == 0)
			return batches[i];
	return NULL;
}

const struct batch *work_batch(void)
{
	for (size_t i = 0; i < ARRAY_LEN(batches); i++)
		if (batches[i]->is_here())
			return batches[i];
	return batches[0];
}

void work_jobs_done(struct batch_jobs *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct batch_job *j = &l->v[i];

		free(j->id);
		free(j->state);
		free(j->user);
		free(j->node);
		free(j->reason);
		free(j->partition);
		free(j->key);
		free(j->run);
	}
	free(l->v);
	*l = (struct batch_jobs){ 0 };
}

const struct batch_job *work_job_of(const struct batch_jobs *l, const struct worker *w)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].key && strcmp(l->v[i].key, w->key) == 0)
			return &l->v[i];
	return NULL;
}

/* --- workers that are jobs
 * --------------------------------------------------------------------------------- */

/* The line for sh that runs a worker's supervisor, to free(). */
static char *hold_line(const struct store *st, const struct worker *w)
{
	auto_free char *program = work_program(), *quoted = escape_for_sh(program),
		       *store = escape_for_sh(store_path(st));

	return xasprintf("exec %s workers hold --store=%s %s", quoted, store, w->key);
}

static int start_job(const struct batch *b, struct store *st, struct worker *w,
	const struct strv *further, struct mlr_error *err)
{
	auto_free char *log = worker_path(st, w, "log"), *line = hold_line(st, w);
	auto_strv struct strv ids = STRV_INIT;
	int r;

	TRY(worker_write(st, w, err));
	TRY(b->submit(w, log, line, further, &w->id, err));
	/* Until this is written the job names the worker. */
	r = worker_write(st, w, err);
	if (r < 0) {
		strv_add(&ids, w->id);
		b->cancel(&ids, NULL);
	}
	return r;
}

/* Ask the systems of all workers of a list. Without an answer what files say of those that ended is
 * enough. */
static int ask_all(const struct worker_list *l, struct batch_jobs *ret, struct mlr_error *err)
{
	work_jobs_done(ret);
	for (size_t s = 0; s < ARRAY_LEN(batches); s++) {
		struct mlr_error why = MLR_ERROR_INIT;
		int some = 0, needed = 0, r;

		for (size_t i = 0; i < l->n; i++)
			if (batch_of(&l->v[i]) == batches[s]) {
				some = 1;
				needed = needed || !l->v[i].ended;
			}
		r = some ? batches[s]->jobs(BATCH_OWN, ret, &why) : 0;
		if (r < 0 && needed)
			return mlr_pass(err, why.code, why.text);
	}
	return 0;
}

/* The files are newer than the system's answer: what began after it is no job yet. */
static void look_at_job(const struct batch_jobs *jobs, struct worker *w)
{
	const struct batch_job *j = work_job_of(jobs, w);

	worker_set(&w->state, j ? j->state : w->last);
	worker_set(&w->reason, j ? j->reason : NULL);
	if (w->state)
		w->status = batch_of(w)->status(w->state);
	else
		w->status = time(NULL) - w->created < WORK_NEW_S ? WORKER_PENDING : WORKER_LOST;
	if (j && !w->id)
		w->id = xstrdup(j->id);
	if (j && !w->node && *j->node)
		w->node = xstrdup(j->node);
	/* Slurm cannot even open the worker's log where the store is not. */
	if (w->status == WORKER_FAILED && !w->process && strcmp(w->state, "FAILED") == 0)
		worker_set(&w->reason, "it did not begin: does its node see the store?");
	if (w->status <= WORKER_STARTING && w->process)
		w->status = w->pid > 0 ? WORKER_RUNNING : WORKER_STARTING;
}

static int cancel_jobs(const struct worker_list *l, struct mlr_error *err)
{
	int r = 0;

	for (size_t s = 0; r == 0 && s < ARRAY_LEN(batches); s++) {
		auto_strv struct strv ids = STRV_INIT;

		for (size_t i = 0; i < l->n; i++)
			if (batch_of(&l->v[i]) == batches[s])
				strv_add(&ids, l->v[i].id);
		r = ids.n > 0 ? batches[s]->cancel(&ids, err) : 0;
	}
	return r;
}

/* --- start -------------------------------------------------------------------------------- */

/* Does an NFS server of this machine offer the path to others? Its list is exports(5)'s. */
static int is_exported(const char *path)
{
	auto_free char *text = NULL;
	char *rest, *line;

	if (file_read(AT_FDCWD, "/var/lib/nfs/etab", ETAB_MAX, &text, NULL, NULL) < 0)
		return 0;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		line[strcspn(line, "\t")] = '\0';
		if (*line && path_below(path, line))
			return 1;
	}
	return 0;
}

static int is_this_machine(const char *name)
{
	char own[HOST_NAME_MAX + 1] = "";
	size_t n = strcspn(name, ".");

	gethostname(own, sizeof(own) - 1);
	return strcmp(name, "localhost") == 0 ||
		(strncmp(name, own, n) == 0 && strcspn(own, ".") == n);
}

void work_look_at_store(struct store *st, const char *partition)
{
	const struct batch *b = work_batch();
	auto_free struct batch_node *nodes = NULL;
	struct filesystem fs;
	size_t n = 0, i = 0;

	if (!b->is_here() || filesystem_read(store_fd(st), &fs) < 0 ||
		!(fs.quirks & FILESYSTEM_LOCAL) || is_exported(store_path(st)) ||
		b->nodes(partition, &nodes, &n, NULL) < 0)
		return;
	while (i < n && is_this_machine(nodes[i].machine))
		i++;
	if (i < n)
		mlr_warning(
			"store '%s' is on this machine's own %s, which '%s' may not see: workers "
			"need one that their nodes share (--store, MLRUN_STORE)",
			store_path(st), fs.name, nodes[i].machine);
}

int work_start(struct store *st, int local, struct worker *w, const struct strv *further,
	struct mlr_error *err)
{
	const struct batch *b = work_batch();
	int r;

	if (local || !b->is_here())
		b = NULL;
	worker_set(&w->system, b ? b->name : "local");
	if (!w->directory)
		w->directory = getcwd(NULL, 0);
	if (!w->directory)
		return mlr_fail_errno(err, "the working directory");
	w->created = time(NULL);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like others */
	r = worker_make(st, w, err);
	if (r == 0)
		r = b ? start_job(b, st, w, further, err) : local_start(st, w, err);
	if (r < 0)
		worker_remove(st, w, NULL);
	else
		w->status = WORKER_PENDING;
	return r;
}

/* --- look --------------------------------------------------------------------------------- */

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

static void judge(struct store *st, const struct batch_jobs *jobs, struct worker *w)
{
	if (batch_of(w))
		look_at_job(jobs, w);
	else
		local_look(st, w);
	if (!w->ended)
		return;
	/* The system's words are of an earlier moment, and why it waited no longer counts. */
	if (!worker_has_ended(w))
		worker_set(&w->state, NULL);
	worker_set(&w->reason, NULL);
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

/* Read its files again, unless they have been removed meanwhile. */
static void look_again(struct store *st, const struct batch_jobs *jobs, struct worker *w)
{
	struct worker now = WORKER_INIT;
	enum worker_status status = w->status;

	if (worker_read(st, w->key, &now, NULL) == 0) {
		worker_done(w);
		*w = now;
		w->status = status;
	}
	judge(st, jobs, w);
	keep_last(st, w);
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
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	time_t now = time(NULL);
	int r = worker_read_all(st, ret, err);

	for (size_t i = 0; r == 0 && i < ret->n;)
		if (batch_of(&ret->v[i]) || strcmp(ret->v[i].system, "local") == 0)
			i++;
		else /* a newer mlrun's */
			drop(ret, i);
	if (r == 0)
		r = ask_all(ret, &jobs, err);
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		look_again(st, &jobs, &ret->v[i]);
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

	mlr_sleep_ms(ms);
}

int work_await(struct store *st, struct worker_list *l, enum work_until until, double seconds,
	struct mlr_error *err)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	int64_t begin = mlr_now_ms(), asked = INT64_MIN / 2;

	for (;;) {
		int64_t now = mlr_now_ms();
		size_t left = 0;

		if (now - asked >= SLURM_MS) {
			TRY(ask_all(l, &jobs, err));
			asked = now;
		}
		for (size_t i = 0; i < l->n; i++) {
			if (is_reached(&l->v[i], until) && asked != now)
				continue;
			look_again(st, &jobs, &l->v[i]);
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
	r = cancel_jobs(&alive, err);
	for (size_t i = 0; r == 0 && i < alive.n; i++)
		if (!batch_of(&alive.v[i]))
			r = local_cancel(st, &alive.v[i], err);
	free(alive.v);
	return r < 0 ? r : work_await(st, l, WORK_DONE, STOP_S, err);
}

/* --- use ---------------------------------------------------------------------------------- */

void work_enter(const struct worker *w, int tty, struct strv *ret, struct strv *env)
{
	const struct batch *b = batch_of(w);

	if (b)
		b->step(w, tty, ret);
	else
		local_enter(w);
	work_batch()->environment(env);
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
		mlr_fail(err, ENOENT, "you have no worker '%s'", text);
		return mlr_hint(err, "mlrun workers list shows them");
	}
	all = strv_join_within(&there, 400, ", ");
	mlr_fail(err, EEXIST, "%zu workers are on '%s'", there.n, text);
	return mlr_hint(err, "name one: %s", all);
}
