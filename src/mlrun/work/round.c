/* An elastic run's coordinator: every two seconds it computes the run's share and starts or stops
 * workers. */
#include "work/elastic.h"
#include "work/work.h"

#include "job/job.h"
#include "store/json.h"

#include <jansson.h>
#include <sys/prctl.h>

#define ROUND_MS    2000
#define TROUBLE_MS  60000   /* the longest time between two questions that Slurm does not answer */
#define PATIENCE    2       /* rounds without a word of the coordinator's before Slurm is asked */
#define FINISH_MS   10000   /* for the other commands, when one has ended with 0 */
#define AT_ONCE_S   30      /* a command that fails sooner is taken for a wrong one */
#define SUBMIT_MOST 16      /* in a round */
#define LEFT        "left-" /* and the worker's key: it is suspended, */
#define MEET        "shared/meet." /* and this says so to its ranks */
#define BACK_S      60 /* for a command that was suspended to find that it was left out */

/* The last round. */
struct word {
	char round[RANDOM_HEX_SIZE];
	char job[32];         /* whose */
	int64_t grew, shrank; /* when the run did so last, in seconds since the epoch */
};

static const struct record_row word_rows[] = {
	{ "round", RECORD_CHARS, RECORD_AT(struct word, round) },
	{ "job", RECORD_CHARS, RECORD_AT(struct word, job) },
	{ "grew", RECORD_NUMBER, RECORD_AT(struct word, grew) },
	{ "shrank", RECORD_NUMBER, RECORD_AT(struct word, shrank) },
	{ NULL },
};

/* A coordinator's state from round to round. */
struct keeper {
	struct store *st;
	struct elastic_run run;
	const char *job;            /* its own */
	char seen[RANDOM_HEX_SIZE]; /* the last round that it saw */
	int quiet;                  /* rounds since then */
	long slots;
	int64_t over_since; /* 0: it is not over */
	int coordinates;    /* by Slurm's last answer */
	int64_t pause, ask; /* back-off while Slurm does not answer: its length and its end */
	struct word last;   /* what it said then */
};

static void keeper_done(struct keeper *k)
{
	elastic_run_done(&k->run);
}

/* --- shares ------------------------------------------------------------------------------- */

int round_share(const struct batch_jobs *jobs, const struct elastic_run *run, const char *partition,
	long *slots, size_t *runs, long *ret, struct mlr_error *err)
{
	auto_call(share_table_done) struct share_table t = { 0 };
	auto_free struct batch_node *nodes = NULL;
	auto_free char *user = xasprintf("%u", (unsigned)geteuid());
	struct share_run *own;
	size_t n = 0;
	long units;

	TRY(work_batch()->nodes(partition, &nodes, &n, err));
	share_collect(jobs, partition, run->share.kind, &t);
	own = share_add(&t, user, &run->share);
	own->wish.min = run->share.min;
	if (own->first == LONG_MAX)
		own->first = LONG_MAX - 1;
	units = share_free(
		nodes, n, &run->share, run->wish.cpus, elastic_is_one_job(run) ? 1 : LONG_MAX);
	for (size_t i = 0; i < t.n; i++)
		units += t.v[i].held;
	if (slots) {
		long last = *slots;

		*slots = units;
		units = last > units ? last : units;
	}
	share_divide(&t, units);
	*ret = share_add(&t, user, &run->share)->share;
	if (runs)
		*runs = t.n;
	return 0;
}

/* --- the coordinator's word ------------------------------------------------------------------ */

int round_say(struct store *st, const char *key, const char *job, int64_t grew, int64_t shrank,
	struct mlr_error *err)
{
	auto_free char *path = elastic_path(key, "round");
	struct word w = { .grew = grew, .shrank = shrank };

	random_hex(w.round);
	snprintf(w.job, sizeof(w.job), "%s", job);
	return store_json_put(st, path, word_rows, &w, err);
}

/* Has another job said something lately? Then it is the coordinator. */
static int hears_another(struct keeper *k, struct word *ret)
{
	auto_free char *path = elastic_path(k->run.share.key, "round");

	*ret = (struct word){ .grew = 0 };
	store_json_take(k->st, path, word_rows, ret, NULL);
	if (!*ret->round || strcmp(ret->job, k->job) == 0)
		return 0;
	if (strcmp(k->seen, ret->round) == 0)
		return ++k->quiet < PATIENCE;
	strcpy(k->seen, ret->round);
	k->quiet = 0;
	return 1;
}

static int say(struct keeper *k, const struct word *w, struct mlr_error *err)
{
	return round_say(k->st, k->run.share.key, k->job, w->grew, w->shrank, err);
}

/* --- a round ------------------------------------------------------------------------------- */

/* Take the last n of a list that is sorted by age. */
static void take_youngest(const struct strv *from, long n, struct strv *ret)
{
	for (size_t i = from->n; i > 0 && n > 0; n--)
		strv_add(ret, from->v[--i]);
}

/* End n workers: first those that wait, and the coordinator's own job last. */
static int shrink(struct keeper *k, long n, struct mlr_error *err)
{
	auto_strv struct strv waiting = STRV_INIT, running = STRV_INIT;
	int r;

	take_youngest(&k->run.waiting, n, &waiting);
	take_youngest(&k->run.running, n - (long)waiting.n, &running);
	r = work_batch()->cancel(&waiting, err);
	return r < 0 ? r : work_batch()->terminate(&running, err);
}

static int grow(struct keeper *k, long n, struct mlr_error *err)
{
	int r = 0;

	for (long i = 0; r == 0 && i < n && i < SUBMIT_MOST; i++)
		r = elastic_grow(k->st, &k->run, 1, err);
	return r;
}

/* Another job for this one, which is the only one, or has just failed. */
static int replace(struct keeper *k, long nodes, struct mlr_error *err)
{
	auto_free char *path = elastic_path(k->run.share.key, "next");
	json_auto_t *o = json_pack("{s:I}", "nodes", (json_int_t)nodes);
	int r;

	if (k->run.running.n == 0)
		return elastic_grow(k->st, &k->run, nodes, err);
	r = o ? store_json_write(k->st, path, o, err) : mlr_fail(err, ENOMEM, "a job's size");
	return r < 0 ? r : work_batch()->terminate(&k->run.running, err);
}

/* End a run that is over: first the jobs that wait, or they would begin it again. */
static int wind_up(struct keeper *k, struct mlr_error *err)
{
	int64_t now = mlr_now_ms();
	int r = work_batch()->cancel(&k->run.waiting, err);

	if (r == 0)
		r = work_batch()->cancel(&k->run.suspended, err);
	if (k->over_since == 0)
		k->over_since = now;
	if (r == 0 && now - k->over_since > FINISH_MS)
		r = work_batch()->terminate(&k->run.running, err);
	return r;
}

static int approach(struct keeper *k, const struct batch_jobs *jobs, const char *partition,
	struct word *w, struct mlr_error *err)
{
	long has = k->run.workers, share = 0;
	int is_one = elastic_is_one_job(&k->run);
	int64_t now = time(NULL);
	size_t runs = 0;

	TRY(round_share(jobs, &k->run, partition, &k->slots, &runs, &share, err));
	if (share < k->run.share.min)
		share = k->run.share.min;
	if (has > share && now - w->grew >= k->run.hold) {
		mlr_info("run %s: %zu runs share %ld slots: %ld workers of %ld end",
			k->run.share.key, runs, k->slots, has - share, has);
		w->shrank = now;
		return is_one ? replace(k, share, err) : shrink(k, has - share, err);
	}
	if (has < share && (has < k->run.share.min || now - w->shrank >= k->run.hold)) {
		mlr_info("run %s: %zu runs share %ld slots: %ld workers beside %ld",
			k->run.share.key, runs, k->slots, share - has, has);
		w->grew = now;
		return is_one ? replace(k, share, err) : grow(k, share - has, err);
	}
	return 0;
}

static struct batch_job *find_job(const struct batch_jobs *jobs, const char *id)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (strcmp(jobs->v[i].id, id) == 0)
			return &jobs->v[i];
	return NULL;
}

/* Make, or remove if it is old, the file of a worker that is suspended. */
static void mark(struct store *st, const char *run, const char *file, int is_suspended)
{
	auto_free char *path = elastic_path(run, file);
	struct stat s;

	if (is_suspended)
		elastic_flag(st, run, file, NULL);
	else if (fstatat(store_fd(st), path, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
		time(NULL) - s.st_mtime > BACK_S)
		unlinkat(store_fd(st), path, 0);
}

/* Mark whom ranks shall not wait for: those of jobs that are suspended, or were until a moment ago,
 * as they may not have seen it yet. What a supervisor believes is not where the command can write.
 */
static void mark_suspended(const struct keeper *k, const struct batch_jobs *jobs, const char *user)
{
	for (size_t i = 0; i < jobs->n; i++) {
		const struct batch_job *j = &jobs->v[i];
		auto_free char *own = xasprintf(LEFT "%s", j->key ? j->key : ""),
			       *ranks = xasprintf(MEET "%s", own);

		if (!j->key || !j->run || strcmp(j->run, k->run.wish.run) != 0 ||
			strcmp(j->user, user) != 0)
			continue;
		mark(k->st, k->run.share.key, own, j->status == WORKER_SUSPENDED);
		mark(k->st, k->run.share.key, ranks, j->status == WORKER_SUSPENDED);
	}
}

static int unmark(struct store *st, const char *run, const char *file)
{
	auto_free char *path = elastic_path(run, file);

	return unlinkat(store_fd(st), path, 0);
}

int elastic_comes_back(struct store *st, const struct worker *w)
{
	auto_free char *own = xasprintf(LEFT "%s", w->key), *ranks = xasprintf(MEET "%s", own);
	struct share_wish share;

	if (share_read(w->run, &share) < 0)
		return 0;
	unmark(st, share.key, ranks);
	return unmark(st, share.key, own) == 0;
}

/* leaving: the job is about to end, and does not count. */
static int look(struct keeper *k, struct word *w, int leaving, struct mlr_error *err)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_free char *user = xasprintf("%u", (unsigned)geteuid());
	struct batch_job *own;
	struct elastic_flags flags;
	int r = work_batch()->jobs(BATCH_EVERYBODYS, &jobs, err);

	TRY(r);
	elastic_jobs(&jobs, user, &k->run);
	own = find_job(&jobs, k->job);
	k->coordinates = own && k->run.running.n > 0 && strcmp(k->run.running.v[0], k->job) == 0;
	if (!k->coordinates)
		return 0;
	mark_suspended(k, &jobs, user);
	own->runs = !leaving;
	elastic_jobs(&jobs, user, &k->run);
	own->runs = 1; /* it has its slots until it has ended */
	elastic_flags_read(k->st, k->run.share.key, &flags);
	if (flags.over || (k->run.wish.deadline && k->run.wish.deadline <= time(NULL)))
		r = wind_up(k, err);
	else
		r = approach(k, &jobs, own->partition, w, err);

	/* Whatever happened, or all others would ask Slurm, too. */
	int told = say(k, w, r < 0 ? NULL : err);

	return r < 0 ? r : told;
}

static void look_once(struct keeper *k, int leaving)
{
	struct mlr_error err = MLR_ERROR_INIT;

	/* A worker that is ending may have missed the coordinator's messages. */
	if (hears_another(k, &k->last) && !leaving)
		return;
	if (look(k, &k->last, leaving, &err) == 0) {
		k->pause = k->ask = 0;
		return;
	}
	if (!k->pause)
		mlr_log_failure(MLR_WARNING, &err, ", so the run keeps its workers; trying again");
	k->pause = work_later(k->pause, ROUND_MS, TROUBLE_MS);
	k->ask = mlr_now_ms() + k->pause;
}

/* --- what a supervisor calls ----------------------------------------------------------------- */

static int keeper_open(
	struct store *st, const struct worker *w, struct keeper *ret, struct mlr_error *err)
{
	struct share_wish share;
	int r = share_read(w->run, &share);

	*ret = (struct keeper){ .st = st, .run = ELASTIC_RUN_INIT, .job = job_id(environ) };
	if (r < 0 || !ret->job)
		return mlr_fail(err, EPROTO, "worker '%s' does not belong to a run", w->key);
	return elastic_read(st, share.key, &ret->run, err);
}

static void keep(struct store *st, const struct worker *w)
{
	auto_call(keeper_done) struct keeper k = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (keeper_open(st, w, &k, &err) < 0) {
		mlr_log_failure(MLR_WARNING, &err, ", so no workers are added or ended");
		return;
	}
	for (;;) {
		if (mlr_now_ms() >= k.ask)
			look_once(&k, 0);
		else if (k.coordinates) /* Slurm gave no answer: keep the others from asking */
			say(&k, &k.last, NULL);
		mlr_sleep_ms(ROUND_MS);
	}
}

pid_t elastic_keep(struct store *st, const struct worker *w)
{
	pid_t parent = getpid(), pid = fork();
	sigset_t none;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getppid() == parent)
		keep(st, w);
	_exit(0);
}

void elastic_add_options(const struct store *st, const struct worker *w, struct strv *options)
{
	auto_free char *meet = NULL, *dir = NULL;
	struct share_wish share;

	if (share_read(w->run, &share) < 0)
		return;
	meet = elastic_meet(st, share.key);
	dir = path_dir(meet);
	strv_addf(options, "--mount=type=bind,src=%s,dst=%s", dir, dir);
	strv_addf(options, "--env=MLRUN_ELASTIC=%s", meet);
	strv_addf(options, "--env=MLRUN_ELASTIC_LOG=%s/log", dir);
	strv_addf(options, "--env=MLRUN_ELASTIC_WORKER=%s", w->key);
	if (w->warning)
		strv_addf(options, "--env=MLRUN_ELASTIC_NODES=%ld", w->nodes);
}

char *elastic_host(const struct worker *w)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_call(elastic_run_done) struct elastic_run run = ELASTIC_RUN_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (work_batch()->jobs(BATCH_OWN, &jobs, &err) < 0) {
		mlr_log_failure(MLR_WARNING, &err, ", so MLRUN_ELASTIC_HOST is not set");
		return NULL;
	}
	run.wish.run = xstrdup(w->run);
	elastic_jobs(&jobs, NULL, &run);
	if (run.running.n == 0)
		return NULL;
	return xstrdup(find_job(&jobs, run.running.v[0])->node);
}

int elastic_is_over(struct store *st, const struct worker *w)
{
	struct elastic_flags flags = { 0 };
	struct share_wish share;

	if (share_read(w->run, &share) == 0)
		elastic_flags_read(st, share.key, &flags);
	return flags.over;
}

void elastic_follow(struct store *st, const struct worker *w)
{
	auto_call(keeper_done) struct keeper k = { 0 };
	auto_free char *path = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	json_auto_t *o = NULL;
	long nodes;

	if (!w->warning || elastic_is_over(st, w) || keeper_open(st, w, &k, &err) < 0)
		return;
	path = elastic_path(k.run.share.key, "next");
	if (store_json_read(st, path, &o, NULL) < 0)
		return;
	nodes = (long)json_integer_value(json_object_get(o, "nodes"));
	unlinkat(store_fd(st), path, 0);
	if (elastic_grow(st, &k.run, nodes, &err) < 0)
		mlr_log_failure(MLR_WARNING, &err, ", so the run ends");
}

void elastic_ended(struct store *st, const struct worker *w, int status, int64_t lived_s)
{
	auto_call(keeper_done) struct keeper k = { 0 };
	auto_free char *failed = xasprintf("failed-%s", w->key);
	struct mlr_error err = MLR_ERROR_INIT;
	int r = keeper_open(st, w, &k, &err);

	if (r == 0 && status == 0)
		r = elastic_flag(st, k.run.share.key, "done", &err);
	else if (r == 0 && lived_s < AT_ONCE_S)
		r = elastic_flag(st, k.run.share.key, failed, &err);
	if (r < 0)
		mlr_log_failure(MLR_WARNING, &err, ", ignoring");
	else if (status != 0)
		look_once(&k, 1);
}
