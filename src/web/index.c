#include "web/index.h"

#include "base/filesystem.h"
#include "base/json.h"

#include <pthread.h>

#define REMOVED_MAX 1024
#define CHANGES_MAX 200   /* runs in one answer */
#define LOOK_S      5.0   /* somebody who asked looks for so long */
#define STEP_MS     250   /* between two looks at runs that go on, on a local file system */
#define STEP_FAR_MS 2000  /* on others */
#define SCAN_S      2.0   /* between two listings, at least */
#define SCAN_SHARE  50    /* and so many times a listing's time */
#define GOES_ON_S   600.0 /* a run of others is read again for so long after its last change */
#define NAMES_FROM  500   /* runs whose metrics' names a list has */
#define NAMES_MAX   512

struct removed {
	char id[RUN_ID_SIZE];
	uint64_t at;
};

struct index {
	const struct strv *roots;
	void (*tick)(void *ctx);
	void *ctx;
	pthread_t thread;
	pthread_mutex_t writing; /* who has it may read runs without the lock; taken before it */
	pthread_mutex_t lock;    /* of all that follows, and of the runs */
	pthread_cond_t wake;
	struct run **v; /* [n] */
	size_t n;
	struct run **table; /* [room], by id; room is a power of 2, twice n at least */
	size_t room;
	struct removed removed[REMOVED_MAX];
	size_t n_removed; /* ever */
	uint64_t now, scan;
	size_t directories; /* of this listing */
	struct strv notes;
	int scanning, looks, ends, step_ms, has_thread;
	double asked;
};

/* --- the table of ids -------------------------------------------------------------------- */

static struct run **slot_of(struct index *i, const char *id)
{
	size_t at = i->room ? strtoull(id, NULL, 16) & (i->room - 1) : 0;

	while (i->room && i->table[at] && strcmp(i->table[at]->id, id) != 0)
		at = (at + 1) & (i->room - 1);
	return i->room ? &i->table[at] : NULL;
}

static void build_table(struct index *i)
{
	i->room = i->room ? i->room : 64;
	while (i->room < 2 * i->n + 2)
		i->room *= 2;
	set_ptr(&i->table, xcalloc(i->room, sizeof(struct run *)));
	for (size_t k = 0; k < i->n; k++)
		*slot_of(i, i->v[k]->id) = i->v[k];
}

static struct run *find(struct index *i, const char *id)
{
	struct run **slot = slot_of(i, id);

	return slot ? *slot : NULL;
}

static void add(struct index *i, struct run *r)
{
	*xadd(i->v, i->n) = r;
	if (i->room < 2 * i->n + 2)
		build_table(i);
	else
		*slot_of(i, r->id) = r;
}

/* --- with the lock ----------------------------------------------------------------------- */

void index_lock(struct index *i)
{
	pthread_mutex_lock(&i->lock);
}

void index_unlock(struct index *i)
{
	pthread_mutex_unlock(&i->lock);
}

struct run *index_find(struct index *i, const char *id, int *was_there)
{
	struct run *r =
		strlen(id) == RUN_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == RUN_ID_SIZE - 1
		? find(i, id)
		: NULL;

	*was_there = r != NULL;
	for (size_t k = 0; !*was_there && k < i->n_removed && k < REMOVED_MAX; k++)
		*was_there = strcmp(i->removed[k].id, id) == 0;
	return r;
}

uint64_t index_now(const struct index *i)
{
	return i->now;
}

void index_change(struct index *i, struct run *r)
{
	r->changed = ++i->now;
}

void index_each(struct index *i, void (*call)(void *ctx, struct run *r), void *ctx)
{
	for (size_t k = 0; k < i->n; k++)
		call(ctx, i->v[k]);
}

/* A metric's name, and how many runs have it. */
struct name {
	const char *text;
	size_t n;
};

static int by_count(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->text, y->text);
}

static void count_name(struct name *names, size_t *n, const char *text)
{
	size_t k = 0;

	while (k < *n && strcmp(names[k].text, text) != 0)
		k++;
	if (k == NAMES_MAX)
		return;
	if (k == *n)
		names[(*n)++] = (struct name){ text, 0 };
	names[k].n++;
}

static json_t *names_of(const struct query_key *keys, size_t n)
{
	struct name names[NAMES_MAX];
	size_t count = 0;

	for (size_t k = 0; k < n && k < NAMES_FROM; k++)
		for (size_t m = 0; m < keys[k].run->n_last; m++)
			count_name(names, &count, keys[k].run->last[m].name);
	sort_all(names, count, by_count);
	if (count > INDEX_METRICS)
		count = INDEX_METRICS;
	return MLR_JSON_LIST(k, count, mlr_json_text(names[k].text));
}

json_t *index_list(struct index *i, const struct query *q, size_t offset, size_t limit)
{
	auto_free struct query_key *keys = xcalloc(i->n + 1, sizeof(*keys));
	int falls = q->falls;
	size_t n = 0;
	json_t *runs = json_array();

	for (size_t k = 0; k < i->n; k++)
		if (query_matches(q, i->v[k]))
			query_key(q, i->v[k], &keys[n++]);
	qsort_r(keys, n, sizeof(*keys), query_compare, &falls);
	for (size_t k = offset; k < n && k - offset < limit; k++)
		json_array_append_new(runs, run_json(keys[k].run));
	return json_pack("{sI sI sb so so so sI}", "total", (json_int_t)i->n, "matched",
		(json_int_t)n, "scanning", i->scanning, "notes", mlr_json_texts(&i->notes),
		"metrics", names_of(keys, n), "runs", runs, "change", (json_int_t)i->now);
}

json_t *index_changes(struct index *i, uint64_t since)
{
	json_t *runs = json_array(), *removed = json_array();
	int more = 0;

	for (size_t k = 0; k < i->n && !more; k++) {
		if (i->v[k]->changed <= since)
			continue;
		more = json_array_size(runs) == CHANGES_MAX;
		if (!more)
			json_array_append_new(runs, run_json(i->v[k]));
	}
	for (size_t k = 0; k < i->n_removed && k < REMOVED_MAX; k++)
		if (i->removed[k].at > since)
			json_array_append_new(removed, mlr_json_text(i->removed[k].id));
	return json_pack("{so so sI sb sb}", "runs", runs, "removed", removed, "total",
		(json_int_t)i->n, "scanning", i->scanning, "more",
		more || json_array_size(removed) == REMOVED_MAX);
}

/* --- listing directories ----------------------------------------------------------------- */

/* Take a run that was read; what it owns becomes the index's. */
static void take(struct index *i, struct run *r)
{
	struct run *was = find(i, r->id);
	int is_new = !was;

	if (is_new) {
		was = xmalloc(sizeof(*was));
	} else {
		if (!r->has_end && r->is_own && was->is_own) { /* its service said so */
			r->state = was->state;
			r->reason = take_ptr(&was->reason);
		}
		run_done(was);
	}
	*was = *r;
	was->scan = i->scan;
	if (is_new)
		add(i, was);
	index_change(i, was);
}

/* Read a directory. Returns whether it is a run. */
static int look_at(struct index *i, int dir, const char *path)
{
	struct run fresh, *was;
	char id[RUN_ID_SIZE];
	int r;

	run_id(path, id);
	pthread_mutex_lock(&i->writing);
	index_lock(i);
	was = find(i, id);
	index_unlock(i);
	r = run_read(dir, path, was, &fresh);
	index_lock(i);
	if (r == RUN_SAME)
		was->scan = i->scan;
	else if (r)
		take(i, &fresh);
	index_unlock(i);
	pthread_mutex_unlock(&i->writing);
	return r != 0;
}

static void list(struct index *i, int dir, const char *path, int depth)
{
	auto_dir DIR *d = NULL;

	if (i->ends || look_at(i, dir, path) || depth == 0)
		return;
	d = file_open_dir(dir, ".", O_NOFOLLOW);
	for (struct dirent *e; !i->ends && (e = file_next(d));) {
		auto_close int below = -1;
		auto_free char *name = NULL;

		if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		if (++i->directories > INDEX_DIRECTORIES)
			return;
		below = openat(dir, e->d_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		name = xasprintf("%s/%s", strcmp(path, "/") == 0 ? "" : path, e->d_name);
		if (below >= 0)
			list(i, below, name, depth - 1);
	}
}

static void keep_removed(struct index *i, const struct run *r)
{
	struct removed *slot = &i->removed[i->n_removed++ % REMOVED_MAX];

	memcpy(slot->id, r->id, sizeof(slot->id));
	slot->at = ++i->now;
}

/* Remove those that this listing did not find. */
static void sweep(struct index *i)
{
	size_t kept = 0;

	for (size_t k = 0; k < i->n; k++) {
		if (i->v[k]->scan == i->scan) {
			i->v[kept++] = i->v[k];
			continue;
		}
		keep_removed(i, i->v[k]);
		run_done(i->v[k]);
		free(i->v[k]);
	}
	if (kept == i->n)
		return;
	i->n = kept;
	build_table(i);
}

/* List a root; a note says why it cannot be listed. */
static void list_root(struct index *i, const char *path, struct strv *notes)
{
	auto_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	struct filesystem fs = { 0 };

	if (dir < 0) {
		strv_addf(notes, "'%s': %s", path, strerror(errno));
		return;
	}
	if (filesystem_read(dir, &fs) < 0 || !(fs.quirks & FILESYSTEM_LOCAL))
		i->step_ms = STEP_FAR_MS;
	list(i, dir, path, INDEX_DEPTH);
}

static void scan(struct index *i)
{
	auto_strv struct strv notes = STRV_INIT;
	struct strv old;

	index_lock(i);
	i->scan++;
	i->scanning = 1;
	index_unlock(i);
	i->directories = 0;
	i->step_ms = STEP_MS;
	for (size_t k = 0; k < i->roots->n; k++)
		list_root(i, i->roots->v[k], &notes);
	if (i->directories > INDEX_DIRECTORIES)
		strv_addf(&notes, "there are more than %d directories; the others are not listed",
			INDEX_DIRECTORIES);
	pthread_mutex_lock(&i->writing);
	index_lock(i);
	if (!i->ends && i->directories <= INDEX_DIRECTORIES)
		sweep(i);
	i->scanning = 0;
	old = i->notes;
	i->notes = take_struct(&notes, STRV_INIT);
	index_unlock(i);
	pthread_mutex_unlock(&i->writing);
	strv_done(&old);
}

int index_touch(struct index *i, const char *directory)
{
	auto_close int dir = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct run fresh;
	int is_run;

	pthread_mutex_lock(&i->writing);
	is_run = dir >= 0 && run_read(dir, directory, NULL, &fresh) == 1;
	if (is_run) {
		index_lock(i);
		take(i, &fresh);
		index_unlock(i);
	}
	pthread_mutex_unlock(&i->writing);
	return is_run;
}

/* --- what goes on ------------------------------------------------------------------------ */

static int goes_on(const struct run *r)
{
	return r->state == RUN_RUNNING || r->state == RUN_WAITING ||
		mlr_epoch() - run_changed(r) < GOES_ON_S;
}

/* Read what runs have added. */
static void follow(struct index *i)
{
	pthread_mutex_lock(&i->writing);
	for (size_t k = 0; k < i->n && !i->ends; k++) {
		if (!goes_on(i->v[k]))
			continue;
		index_lock(i);
		if (run_read_on(i->v[k]))
			index_change(i, i->v[k]);
		index_unlock(i);
	}
	pthread_mutex_unlock(&i->writing);
}

static int is_watched(const struct index *i)
{
	return i->looks > 0 || mlr_now() - i->asked < LOOK_S;
}

/* Sleep until somebody looks, and then for a step. Returns 0 at the end. */
static int rest(struct index *i)
{
	index_lock(i);
	if (!i->ends && is_watched(i))
		mlr_cond_wait_ms(&i->wake, &i->lock, i->step_ms);
	while (!i->ends && !is_watched(i))
		pthread_cond_wait(&i->wake, &i->lock);
	index_unlock(i);
	return !i->ends;
}

static void *run_index(void *arg)
{
	struct index *i = arg;
	double due = 0;

	do {
		double start = mlr_now();

		if (start >= due) {
			scan(i);
			due = mlr_now() + SCAN_S + SCAN_SHARE * (mlr_now() - start);
		} else {
			follow(i);
		}
		i->tick(i->ctx);
	} while (rest(i));
	return NULL;
}

void index_look(struct index *i, int more)
{
	index_lock(i);
	i->looks += more;
	i->asked = more < 0 ? i->asked : mlr_now();
	pthread_cond_signal(&i->wake);
	index_unlock(i);
}

struct index *index_new(const struct strv *roots, void (*tick)(void *ctx), void *ctx)
{
	struct index *i = xcalloc(1, sizeof(*i));

	*i = (struct index){ .roots = roots,
		.tick = tick,
		.ctx = ctx,
		.asked = mlr_now(),
		.scanning = 1,
		.step_ms = STEP_MS };
	pthread_mutex_init(&i->writing, NULL);
	pthread_mutex_init(&i->lock, NULL);
	pthread_cond_init(&i->wake, NULL);
	return i;
}

int index_start(struct index *i, struct mlr_error *err)
{
	int r = pthread_create(&i->thread, NULL, run_index, i);

	i->has_thread = r == 0;
	return mlr_result(err, -r, "start a thread");
}

void index_close(struct index **at)
{
	struct index *i = take_ptr(at);

	if (!i)
		return;
	index_lock(i);
	i->ends = 1;
	pthread_cond_signal(&i->wake);
	index_unlock(i);
	if (i->has_thread)
		pthread_join(i->thread, NULL);
	for (size_t k = 0; k < i->n; k++) {
		run_done(i->v[k]);
		free(i->v[k]);
	}
	free(i->v);
	free(i->table);
	strv_done(&i->notes);
	free(i);
}
