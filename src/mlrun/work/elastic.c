/* An elastic run: its files, its start, its end. round.c is its coordinator. */
#include "work/elastic.h"
#include "work/work.h"

#include "base/json.h"
#include "store/json.h"

#define TOP        "elastic"
#define KEY_SIZE   8     /* digits: people type them */
#define ASK_MS     300   /* the first time between two questions to Slurm, */
#define SELDOM_MS  5000  /* and the longest */
#define AGAIN_MS   3000  /* between two signals */
#define STOP_MS    30000 /* as long as a supervisor lets a command end */
#define KILLED_MS  60000
#define WAITS_S    25  /* ranks that wait say so every ten seconds */
#define WAITS_MAX  500 /* bytes of that */
#define LINE_BYTES 160 /* of what a command printed last */
#define FAILURES   3   /* workers that fail at once: the run is in vain */

const char *const elastic_status_names[] = {
	[ELASTIC_WAITING] = "waiting",
	[ELASTIC_SUSPENDED] = "suspended",
	[ELASTIC_RUNNING] = "running",
	[ELASTIC_SUCCEEDED] = "succeeded",
	[ELASTIC_FAILED] = "failed",
	[ELASTIC_STOPPED] = "stopped",
	[ELASTIC_LOST] = "lost",
};

void elastic_run_done(struct elastic_run *run)
{
	worker_done(&run->wish);
	strv_done(&run->sbatch);
	strv_done(&run->running);
	strv_done(&run->waiting);
	strv_done(&run->suspended);
	free(run->reason);
}

void elastic_list_done(struct elastic_list *l)
{
	free_all(l->v, l->n, elastic_run_done);
	*l = (struct elastic_list){ 0 };
}

/* --- files -------------------------------------------------------------------------------- */

char *elastic_path(const char *key, const char *file)
{
	return xasprintf(TOP "/%s/%s", key, file);
}

char *elastic_meet(const struct store *st, const char *key)
{
	return xasprintf("%s/" TOP "/%s/shared/meet", store_path(st), key);
}

int elastic_flag(struct store *st, const char *key, const char *file, struct mlr_error *err)
{
	auto_free char *path = elastic_path(key, file);
	auto_close int fd = openat(
		store_fd(st), path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	return fd < 0 || futimens(fd, NULL) < 0
		? mlr_fail_errno(err, "make '%s/%s'", store_path(st), path)
		: 0;
}

void elastic_flags_read(struct store *st, const char *key, struct elastic_flags *ret)
{
	auto_free char *path = elastic_path(key, ".");
	auto_strv struct strv names = STRV_INIT;

	*ret = (struct elastic_flags){ 0 };
	file_list(store_fd(st), path, O_NOFOLLOW, &names);
	for (size_t i = 0; i < names.n; i++) {
		ret->done += strcmp(names.v[i], "done") == 0;
		ret->stop += strcmp(names.v[i], "stop") == 0;
		ret->failures += strncmp(names.v[i], "failed-", 7) == 0;
	}
	ret->over = ret->done || ret->stop || ret->failures >= FAILURES;
}

static int make(struct store *st, struct elastic_run *run, struct mlr_error *err)
{
	auto_free char *dir = NULL, *shared = NULL;
	char key[RANDOM_HEX_SIZE];
	int r = file_mkdir_p(store_fd(st), TOP, 0700, err);

	if (r < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	random_hex(key);
	memcpy(run->share.key, key, KEY_SIZE);
	run->share.key[KEY_SIZE] = '\0';
	dir = xasprintf(TOP "/%s", run->share.key);
	shared = elastic_path(run->share.key, "shared");
	if (mkdirat(store_fd(st), dir, 0700) < 0 || mkdirat(store_fd(st), shared, 0700) < 0)
		return mlr_fail_errno(err, "make '%s/%s'", store_path(st), dir);
	return 0;
}

static const struct record_row run_rows[] = {
	{ "worker", RECORD_STRUCT, RECORD_AT(struct elastic_run, wish), .flags = RECORD_MUST,
		.rows = worker_rows },
	{ "sbatch", RECORD_TEXTS, RECORD_AT(struct elastic_run, sbatch) },
	{ "hold", RECORD_NUMBER, RECORD_AT(struct elastic_run, hold) },
	{ NULL },
};

static int write_run(struct store *st, const struct elastic_run *run, struct mlr_error *err)
{
	auto_free char *path = elastic_path(run->share.key, "run.json");

	return store_json_put(st, path, run_rows, run, err);
}

int elastic_read(struct store *st, const char *key, struct elastic_run *ret, struct mlr_error *err)
{
	auto_free char *path = elastic_path(key, "run.json");

	TRY(store_json_take(st, path, run_rows, ret, err));
	return ret->wish.run && share_read(ret->wish.run, &ret->share) == 0
		? 0
		: store_json_bad(st, path, "it is not the record of a run", err);
}

static int remove_run(struct store *st, const char *key, struct mlr_error *err)
{
	auto_free char *dir = xasprintf(TOP "/%s", key);

	return file_remove_tree(store_fd(st), dir, err);
}

/* --- its workers -------------------------------------------------------------------------- */

/* Without sbatch work_start() would start a process here. */
static int check_slurm(struct mlr_error *err)
{
	if (work_batch()->is_here())
		return 0;
	mlr_fail(err, ENOSYS, "elastic runs are jobs of Slurm's, and sbatch is not on PATH");
	return mlr_hint(err, "mlrun workers start works without Slurm");
}

int elastic_grow(struct store *st, const struct elastic_run *run, long nodes, struct mlr_error *err)
{
	auto_call(worker_done) struct worker w = WORKER_INIT;
	auto_strv struct strv further = STRV_INIT;
	json_auto_t *wish = record_write(worker_rows, &run->wish);
	struct record_reader r = { .err = err };

	TRY(check_slurm(err));
	TRY(record_read(&r, worker_rows, wish, &w));
	w.nodes = nodes;
	/* Others' jobs go first. */
	strv_add(&further, "--nice=100");
	strv_add_all(&further, &run->sbatch);
	return work_start(st, 0, &w, &further, err);
}

int elastic_is_one_job(const struct elastic_run *run)
{
	return run->wish.warning != 0;
}

static int by_number(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct strv *ids)
{
	sort_all(ids->v, ids->n, by_number);
}

void elastic_jobs(const struct batch_jobs *jobs, const char *user, struct elastic_run *run)
{
	strv_done(&run->running);
	strv_done(&run->waiting);
	strv_done(&run->suspended);
	run->workers = run->ending = 0;
	for (size_t i = 0; i < jobs->n; i++) {
		const struct batch_job *j = &jobs->v[i];
		const char *word = j->run;

		if (!word || strcmp(word, run->wish.run) != 0 ||
			(user && strcmp(user, j->user) != 0))
			continue;
		if (j->runs) {
			strv_add(&run->running, j->id);
			run->workers += j->nodes;
		} else if (j->status == WORKER_PENDING) {
			strv_add(&run->waiting, j->id);
			run->workers += j->nodes;
		} else if (j->status == WORKER_SUSPENDED) {
			strv_add(&run->suspended, j->id);
		}
		run->ending += j->ends;
	}
	sort(&run->running);
	sort(&run->waiting);
}

/* --- whom it waits for ---------------------------------------------------------------------- */

/* Add what the program's ranks say, unless who said it has ended since: then it is older than the
 * coordinator's last word, of the same server's clock. The container may make anything there. */
static void add_ranks(struct store *st, const char *key, struct strv *ret)
{
	auto_free char *path = elastic_path(key, "shared/meet.waits"),
		       *round = elastic_path(key, "round");
	auto_close int fd =
		openat(store_fd(st), path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	char text[WAITS_MAX + 1];
	struct stat said, now;
	ssize_t n;

	if (fd < 0 || fstat(fd, &said) < 0 || !S_ISREG(said.st_mode) ||
		fstatat(store_fd(st), round, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		llabs(now.st_mtime - said.st_mtime) >= WAITS_S)
		return;
	n = file_read_full(fd, text, WAITS_MAX);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (*text)
		strv_add(ret, text);
}

char *elastic_waits(struct store *st, const struct batch_jobs *jobs, const char *user,
	const struct share_wish *run)
{
	auto_strv struct strv all = STRV_INIT;
	size_t waiting = 0, runs = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		const struct batch_job *j = &jobs->v[i];
		struct share_wish w;

		if (!j->run || share_read(j->run, &w) < 0 || strcmp(w.key, run->key) != 0 ||
			(user && strcmp(user, j->user) != 0))
			continue;
		runs += (size_t)j->runs;
		if (j->status == WORKER_SUSPENDED)
			strv_addf(&all, "job %s on %s is suspended", j->id, j->node);
		else if (j->status == WORKER_PENDING && j->reason && waiting++ == 0)
			strv_addf(&all, "job %s waits (%s)", j->id, j->reason);
	}
	if (st && runs > 0)
		add_ranks(st, run->key, &all);
	return all.n > 0 ? strv_join(&all, all.n, "; ") : NULL;
}

/* --- start -------------------------------------------------------------------------------- */

/* How many to begin with: what it is due beside those that are there. */
static long first_share(const struct elastic_run *run)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	long share = 0;

	/* Without a partition's name the first worker will know. */
	if (!run->wish.partition)
		return run->share.min;
	if (work_batch()->jobs(BATCH_EVERYBODYS, &jobs, &err) < 0 ||
		round_share(&jobs, run, run->wish.partition, NULL, NULL, &share, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, ", so the run begins with its least workers");
	return share > run->share.min ? share : run->share.min;
}

/* Refuse a run that can never have its least workers. Where Slurm's answer does not tell, it is not
 * refused. */
static int check_room(const struct elastic_run *run, struct mlr_error *err)
{
	auto_free struct batch_node *nodes = NULL;
	const char *partition = run->wish.partition;
	size_t n = 0;
	long room;

	if (!partition && (run->sbatch.n > 0 || getenv("SBATCH_PARTITION")))
		return 0;
	if (work_batch()->nodes(partition, &nodes, &n, NULL) < 0 || n == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		nodes[i].free_cpus = nodes[i].all_cpus;
		nodes[i].free_gpus = nodes[i].all_gpus;
	}
	room = share_free(nodes, n, &run->share, run->wish.cpus,
		       elastic_is_one_job(run) ? 1 : LONG_MAX) /
		run->share.units;
	if (run->share.min <= room)
		return 0;
	mlr_fail(err, EINVAL, "--min=%ld: all nodes of %s%s have room for %ld such workers",
		run->share.min, partition ? "partition " : "the default partition",
		partition ? partition : "", room);
	return mlr_hint(err, "ask for fewer, or for less for each (sinfo shows what there is)");
}

int elastic_start(struct store *st, struct elastic_run *run, struct mlr_error *err)
{
	long n;
	int r;

	TRY(check_slurm(err));
	run->share.kind = run->wish.gpus > 0 ? 'g' : 'c';
	run->share.units = run->wish.gpus > 0 ? run->wish.gpus : run->wish.cpus;
	TRY(check_room(run, err));
	work_look_at_store(st, run->wish.partition);
	run->wish.directory = getcwd(NULL, 0);
	run->wish.created = time(NULL);
	if (!run->wish.directory)
		return mlr_fail_errno(err, "the working directory");
	TRY(make(st, run, err));
	run->wish.run = share_word(&run->share);
	r = write_run(st, run, err);
	n = r == 0 ? first_share(run) : 0;
	for (long i = 0; r == 0 && i < n; i += elastic_is_one_job(run) ? n : 1) {
		r = round_say(st, run->share.key, "start", 0, 0, err);
		if (r == 0)
			r = elastic_grow(st, run, elastic_is_one_job(run) ? n : 1, err);
	}
	if (r < 0 && elastic_stop(st, run, NULL) == 0) /* take all back that began */
		remove_run(st, run->share.key, NULL);
	return r;
}

/* --- list, stop ----------------------------------------------------------------------------- */

static enum elastic_status status_of(struct store *st, const struct elastic_run *run)
{
	struct elastic_flags flags;

	elastic_flags_read(st, run->share.key, &flags);
	if (run->running.n > 0)
		return ELASTIC_RUNNING;
	if (flags.done)
		return ELASTIC_SUCCEEDED;
	if (flags.stop)
		return ELASTIC_STOPPED;
	if (flags.over)
		return ELASTIC_FAILED;
	if (run->suspended.n > 0)
		return ELASTIC_SUSPENDED;
	if (run->waiting.n > 0 || time(NULL) - run->wish.created < WORK_NEW_S)
		return ELASTIC_WAITING;
	return ELASTIC_LOST;
}

/* The last line that a worker's command printed, to free(). */
static char *last_line(const struct store *st, const struct worker *w)
{
	auto_free char *path = worker_path(st, w, "log");
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	char text[LINE_BYTES + 1];
	ssize_t n =
		fd < 0 ? 0 : pread(fd, text, LINE_BYTES, size > LINE_BYTES ? size - LINE_BYTES : 0);
	char *line;

	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n > 0 ? n : 0] = '\0';
	line = strrchr(text, '\n');
	return xstrdup(line ? line + 1 : text);
}

/* Say why a run has ended, by its last worker that failed, or else that did not succeed. */
static void add_end(struct store *st, const struct worker_list *workers, struct elastic_run *run)
{
	const struct worker *last = NULL;
	auto_free char *how = NULL, *line = NULL;

	for (size_t i = 0; i < workers->n; i++) {
		const struct worker *w = &workers->v[i];

		if (w->run && strcmp(w->run, run->wish.run) == 0 && w->status > WORKER_SUCCEEDED &&
			(!last || last->status != WORKER_FAILED || w->status == WORKER_FAILED))
			last = w;
	}
	if (!last)
		return;
	how = worker_describe(last);
	line = last_line(st, last);
	run->reason = xasprintf("worker %s %s%s%s", last->id, how, *line ? ": " : "", line);
}

static int add_ends(struct store *st, struct elastic_list *runs, struct mlr_error *err)
{
	auto_call(worker_list_done) struct worker_list workers = { 0 };
	int needed = 0;

	for (size_t i = 0; i < runs->n; i++)
		needed |= runs->v[i].status == ELASTIC_FAILED || runs->v[i].status == ELASTIC_LOST;
	if (needed)
		TRY(work_list(st, &workers, err));
	for (size_t i = 0; i < runs->n; i++)
		if (runs->v[i].status == ELASTIC_FAILED || runs->v[i].status == ELASTIC_LOST)
			add_end(st, &workers, &runs->v[i]);
	return 0;
}

static int is_older(const void *a, const void *b)
{
	const struct elastic_run *x = a, *y = b;

	if (x->wish.created != y->wish.created)
		return x->wish.created < y->wish.created ? -1 : 1;
	return strcmp(x->share.key, y->share.key);
}

/* When its files last changed. */
static int64_t last_change(struct store *st, const char *key)
{
	auto_free char *path = elastic_path(key, ".");
	struct stat s;

	return fstatat(store_fd(st), path, &s, AT_SYMLINK_NOFOLLOW) == 0 ? s.st_mtime : 0;
}

int elastic_list(struct store *st, struct elastic_list *ret, struct mlr_error *err)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_strv struct strv keys = STRV_INIT;
	int r = file_list(store_fd(st), TOP, O_NOFOLLOW, &keys);

	if (r == -ENOENT)
		return 0;
	TRY(mlr_result(err, r, "list '%s/" TOP "'", store_path(st)));
	r = keys.n > 0 ? work_batch()->jobs(BATCH_OWN, &jobs, err) : 0;
	for (size_t i = 0; r == 0 && i < keys.n; i++) {
		struct elastic_run run = ELASTIC_RUN_INIT;
		struct mlr_error why = MLR_ERROR_INIT;
		int bad = elastic_read(st, keys.v[i], &run, &why);

		if (bad < 0 && bad != -ENOENT) /* being made or removed */
			mlr_log_failure(MLR_WARNING, &why, ", ignoring");
		if (bad == 0) {
			elastic_jobs(&jobs, NULL, &run);
			run.status = status_of(st, &run);
			if (run.status <= ELASTIC_RUNNING)
				run.reason = elastic_waits(st, &jobs, NULL, &run.share);
		}
		if (bad == 0 && run.status > ELASTIC_RUNNING &&
			time(NULL) - last_change(st, keys.v[i]) > WORK_KEEP_S)
			bad = remove_run(st, keys.v[i], NULL) == 0 ? -ENOENT : 0;
		if (bad < 0) {
			elastic_run_done(&run);
			continue;
		}
		*xadd(ret->v, ret->n) = run;
	}
	sort_all(ret->v, ret->n, is_older);
	return r < 0 ? r : add_ends(st, ret, err);
}

/* End what waits, and tell what runs; again, but seldom: a job's script that is not there yet does
 * not get a signal. */
static int tell_to_end(const struct elastic_run *now, int64_t grace, int64_t waited, int64_t *told,
	struct mlr_error *err)
{
	TRY(work_batch()->cancel(&now->waiting, err));
	TRY(work_batch()->cancel(&now->suspended, err));
	if (waited > STOP_MS + grace)
		return work_batch()->cancel(&now->running, err);
	if (*told >= 0 && waited - *told < AGAIN_MS)
		return 0;
	*told = waited;
	return work_batch()->terminate(&now->running, err);
}

int elastic_stop(struct store *st, const struct elastic_run *run, struct mlr_error *err)
{
	int64_t begin = mlr_now_ms(), told = -1, pause = 0, grace = run->wish.grace * 1000;
	int r = elastic_flag(st, run->share.key, "stop", err);

	while (r == 0) {
		auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
		auto_call(elastic_run_done) struct elastic_run now = ELASTIC_RUN_INIT;
		int64_t waited = mlr_now_ms() - begin;

		now.wish.run = xstrdup(run->wish.run);
		r = work_batch()->jobs(BATCH_OWN, &jobs, err);
		if (r < 0)
			break;
		elastic_jobs(&jobs, NULL, &now);
		if (now.running.n + now.waiting.n + now.suspended.n == 0 && !now.ending)
			return 0;
		if (waited > KILLED_MS + grace)
			return mlr_fail(err, ETIMEDOUT, "after %lld seconds run %s has not ended",
				(long long)(KILLED_MS + grace) / 1000, run->share.key);
		r = tell_to_end(&now, grace, waited, &told, err);
		pause = work_later(pause, ASK_MS, SELDOM_MS);
		mlr_sleep_ms(pause);
	}
	return r;
}
