#include "work/watch.h"
#include "work/elastic.h"

#include <math.h>

#define TAIL 65536 /* bytes of a program's log that are read */

const char *const watch_state_names[] = {
	[WATCH_WAITS] = "waits",
	[WATCH_SUSPENDED] = "suspended",
	[WATCH_GROWS] = "grows",
	[WATCH_SHRINKS] = "shrinks",
	[WATCH_RUNS] = "runs",
};

void watch_done(struct watch *w)
{
	for (size_t i = 0; i < w->n; i++) {
		for (size_t k = 0; k < w->v[i].n; k++) {
			free(w->v[i].runs[k].user);
			free(w->v[i].runs[k].name);
			free(w->v[i].runs[k].reason);
		}
		free(w->v[i].runs);
		free(w->v[i].partition);
	}
	free(w->v);
	*w = (struct watch){ 0 };
}

/* --- the past --------------------------------------------------------------------------------- */

void watch_add_past(const struct batch_job *j, char kind, int64_t now, double past[WATCH_CELLS])
{
	long units = j->nodes * (kind == 'g' ? j->gpus : j->cpus);
	int runs = j->runs;
	/* For a running job, squeue(1) shows the end set by its time limit. */
	int64_t end = runs || j->end == 0 || j->end > now ? now : j->end;

	if (j->start == 0 || j->status == WORKER_PENDING)
		return;
	for (int c = 0; c < WATCH_CELLS; c++) {
		int64_t from = now - (WATCH_CELLS - c) * WATCH_CELL_S, to = from + WATCH_CELL_S;
		int64_t first = j->start > from ? j->start : from, last = end < to ? end : to;

		if (last > first)
			past[c] += (double)((last - first) * units) / WATCH_CELL_S;
	}
}

/* --- what a program tells ----------------------------------------------------------------------
 */

/* A number of a line, or NAN. */
static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

void watch_read_log(char *text, struct watch_run *ret)
{
	double samples = NAN, seconds = NAN, epoch = NAN;
	char *line;

	ret->generation = -1;
	ret->images_per_second = NAN;
	while ((line = strsep(&text, "\n"))) {
		json_auto_t *o = *line ? json_loads(line, 0, NULL) : NULL;
		double generation = number(o, "generation"), now = number(o, "samples"),
		       at = number(o, "train_seconds"), in = number(o, "epoch");

		if (!(generation >= 0 && generation < 1e15))
			continue;
		if ((int64_t)generation != ret->generation) {
			ret->generation = (int64_t)generation;
			samples = ret->images_per_second = NAN;
		}
		if (isnan(now) || isnan(at))
			continue;
		if (in == epoch && now > samples && at > seconds)
			ret->images_per_second = (now - samples) / (at - seconds);
		samples = now;
		seconds = at;
		epoch = in;
	}
}

/* Read the end of the file that $MLRUN_ELASTIC_LOG named in the run's workers. */
static void read_log(struct store *st, struct watch_run *run)
{
	auto_free char *path = elastic_path(run->key, "shared/log"), *text = xmalloc(TAIL + 1);
	auto_close int fd = openat(store_fd(st), path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat s;
	ssize_t n;

	if (fd < 0 || fstat(fd, &s) < 0 || !S_ISREG(s.st_mode))
		return;
	n = pread(fd, text, TAIL, s.st_size > TAIL ? s.st_size - TAIL : 0);
	text[n > 0 ? n : 0] = '\0';
	watch_read_log(text, run);
}

static void read_own(struct store *st, struct watch_run *run)
{
	auto_call(elastic_run_done) struct elastic_run own = ELASTIC_RUN_INIT;

	if (elastic_read(st, run->key, &own, NULL) < 0)
		return;
	run->name = xstrdup(own.wish.name);
	read_log(st, run);
}

/* --- now ---------------------------------------------------------------------------------------
 */

static enum watch_state state_of(const struct share_run *r)
{
	if (r->running == 0)
		return r->suspended > 0 ? WATCH_SUSPENDED : WATCH_WAITS;
	if (r->ending > 0 || r->running > r->share)
		return WATCH_SHRINKS;
	return r->waiting > 0 || r->running < r->share ? WATCH_GROWS : WATCH_RUNS;
}

static void take_run(const struct batch_jobs *jobs, const struct watch_pool *pool, int64_t now,
	const struct share_run *from, struct watch_run *ret)
{
	*ret = (struct watch_run){ .user = xstrdup(from->user),
		.running = from->running,
		.waiting = from->waiting,
		.ending = from->ending,
		.due = from->share,
		.min = from->wish.min,
		.max = from->wish.max,
		.weight = from->wish.weight,
		.held = from->held,
		.state = state_of(from),
		.generation = -1,
		.images_per_second = NAN };
	memcpy(ret->key, from->wish.key, sizeof(ret->key));
	for (size_t i = 0; i < jobs->n; i++) {
		const struct batch_job *j = &jobs->v[i];
		const char *word = j->run;
		struct share_wish w;

		if (word && share_read(word, &w) == 0 && strcmp(w.key, ret->key) == 0 &&
			strcmp(j->user, ret->user) == 0 && w.kind == pool->kind)
			watch_add_past(j, pool->kind, now, ret->past);
	}
}

static int fill(struct store *st, const struct batch_jobs *jobs, int64_t now,
	struct watch_pool *pool, struct mlr_error *err)
{
	auto_call(share_table_done) struct share_table t = { 0 };
	auto_free struct batch_node *nodes = NULL;
	auto_free char *self = xasprintf("%u", (unsigned)geteuid());
	struct share_wish one = { .units = 1, .kind = pool->kind };
	size_t n = 0;
	int is_own;

	TRY(work_batch()->nodes(pool->partition, &nodes, &n, err));
	share_collect(jobs, pool->partition, pool->kind, &t);
	pool->slots = pool->free = share_free(nodes, n, &one, 1, LONG_MAX);
	for (size_t i = 0; i < t.n; i++)
		pool->slots += t.v[i].held;
	share_divide(&t, pool->slots);
	pool->runs = xcalloc(t.n + 1, sizeof(*pool->runs));
	for (; pool->n < t.n; pool->n++) {
		struct watch_run *run = &pool->runs[pool->n];

		take_run(jobs, pool, now, &t.v[pool->n], run);
		is_own = st && strcmp(run->user, self) == 0;
		run->reason =
			elastic_waits(is_own ? st : NULL, jobs, run->user, &t.v[pool->n].wish);
		if (is_own)
			read_own(st, run);
	}
	return 0;
}

/* Make a pool for a job's run unless there is one. */
static void add_pool(struct watch *w, const struct batch_job *j)
{
	const char *word = j->run;
	enum worker_status status = j->status;
	struct share_wish wish;

	if (!word || status >= WORKER_SUCCEEDED || share_read(word, &wish) < 0)
		return;
	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].kind == wish.kind && strcmp(w->v[i].partition, j->partition) == 0)
			return;
	*xadd(w->v, w->n) =
		(struct watch_pool){ .partition = xstrdup(j->partition), .kind = wish.kind };
}

int watch_read(struct store *st, struct watch *ret, struct mlr_error *err)
{
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	int r = work_batch()->jobs(BATCH_EVERYBODYS, &jobs, err);

	ret->time = time(NULL);
	for (size_t i = 0; r == 0 && i < jobs.n; i++)
		add_pool(ret, &jobs.v[i]);
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		r = fill(st, &jobs, ret->time, &ret->v[i], err);
	return r;
}
