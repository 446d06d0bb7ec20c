#include "work/share.h"

char *share_word(const struct share_wish *w)
{
	return xasprintf(
		"%s:%ld:%ld:%ld:%c%ld", w->key, w->min, w->max, w->weight, w->kind, w->units);
}

static int is_within(long n, long min, long max)
{
	return n >= min && n <= max;
}

int share_read(const char *word, struct share_wish *ret)
{
	struct share_wish w;
	int end = 0;

	if (sscanf(word, "%16[0-9a-f]:%9ld:%9ld:%9ld:%c%9ld%n", w.key, &w.min, &w.max, &w.weight,
		    &w.kind, &w.units, &end) != 6 ||
		word[end] != '\0')
		return -EPROTO;
	if (!is_within(w.min, 1, w.max) || !is_within(w.max, 1, SHARE_MAX) ||
		!is_within(w.weight, 1, SHARE_WEIGHT_MAX) || !is_within(w.units, 1, SHARE_MAX) ||
		(w.kind != 'g' && w.kind != 'c'))
		return -EPROTO;
	*ret = w;
	return 0;
}

/* --- who wants something ------------------------------------------------------------------- */

void share_table_done(struct share_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].user);
	free(t->v);
	*t = (struct share_table){ 0 };
}

struct share_run *share_add(struct share_table *t, const char *user, const struct share_wish *w)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].wish.key, w->key) == 0 && strcmp(t->v[i].user, user) == 0)
			return &t->v[i];
	*xadd(t->v, t->n) =
		(struct share_run){ .wish = *w, .user = xstrdup(user), .first = LONG_MAX };
	return &t->v[t->n - 1];
}

static void count_job(struct share_table *t, const struct batch_job *j, struct share_wish w)
{
	int runs = j->runs, ends = j->ends, waits = j->status == WORKER_PENDING && !j->is_held;
	int is_suspended = j->status == WORKER_SUSPENDED;
	struct share_run *run;

	w.units = w.kind == 'g' ? j->gpus : j->cpus;
	if ((!runs && !ends && !waits && !is_suspended) || !is_within(w.units, 1, SHARE_MAX))
		return;
	run = share_add(t, j->user, &w);
	run->running += runs ? j->nodes : 0;
	run->waiting += waits ? j->nodes : 0;
	run->ending += ends ? j->nodes : 0;
	run->suspended += is_suspended ? j->nodes : 0;
	run->held += ends || runs ? j->nodes * w.units : 0;
	if (!ends && atol(j->id) < run->first)
		run->first = atol(j->id);
}

void share_collect(
	const struct batch_jobs *jobs, const char *partition, char kind, struct share_table *t)
{
	for (size_t i = 0; i < jobs->n; i++) {
		const char *word = jobs->v[i].run;
		struct share_wish w;

		if (word && strcmp(jobs->v[i].partition, partition) == 0 &&
			share_read(word, &w) == 0 && w.kind == kind)
			count_job(t, &jobs->v[i], w);
	}
	for (size_t i = 0; i < t->n; i++) {
		struct share_run *run = &t->v[i];
		long has = run->running + run->waiting + run->ending;

		run->wish.min = run->wish.min < has ? run->wish.min : has;
	}
}

/* --- what there is ------------------------------------------------------------------------ */

long share_free(
	const struct batch_node *nodes, size_t n, const struct share_wish *w, long cpus, long most)
{
	long sum = 0;

	for (size_t i = 0; i < n; i++) {
		long workers = nodes[i].free_cpus / cpus;

		if (w->kind == 'g' && nodes[i].free_gpus / w->units < workers)
			workers = nodes[i].free_gpus / w->units;
		workers = workers < most ? workers : most;
		sum += workers > 0 ? workers * w->units : 0;
	}
	return sum;
}

/* --- shares ------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
	const struct share_run *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return strcmp(x->wish.key, y->wish.key);
}

/* Is it a's turn before b's? a is older. */
static int is_nearer(const struct share_run *a, const struct share_run *b)
{
	return (a->share + 1) * a->wish.units * b->wish.weight <=
		(b->share + 1) * b->wish.units * a->wish.weight;
}

void share_divide(struct share_table *t, long units)
{
	struct share_run *next;

	sort_all(t->v, t->n, by_age);
	for (size_t i = 0; i < t->n; i++) {
		long least = t->v[i].wish.min * t->v[i].wish.units;

		/* A run that is shutting down gets no share. */
		t->v[i].share = t->v[i].first != LONG_MAX && least <= units ? t->v[i].wish.min : 0;
		units -= t->v[i].share ? least : 0;
	}
	do {
		next = NULL;
		for (size_t i = 0; i < t->n; i++) {
			struct share_run *run = &t->v[i];

			if (run->share > 0 && run->share < run->wish.max &&
				run->wish.units <= units && (!next || !is_nearer(next, run)))
				next = run;
		}
		if (next) {
			next->share++;
			units -= next->wish.units;
		}
	} while (next);
}
