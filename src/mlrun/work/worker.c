#include "work/worker.h"

#include "store/json.h"
#include "store/process.h"

#define TOP     "workers"
#define RUN_MAX (1u << 16) /* bytes of `run` */

const char *const worker_status_names[] = {
	[WORKER_PENDING] = "pending",
	[WORKER_STARTING] = "starting",
	[WORKER_RUNNING] = "running",
	[WORKER_SUSPENDED] = "suspended",
	[WORKER_SUCCEEDED] = "succeeded",
	[WORKER_FAILED] = "failed",
	[WORKER_STOPPED] = "stopped",
	[WORKER_TIMEDOUT] = "timedout",
	[WORKER_LOST] = "lost",
};

const struct record_row worker_rows[] = {
	{ "last", RECORD_TEXT, RECORD_AT(struct worker, last) },
	{ "id", RECORD_TEXT, RECORD_AT(struct worker, id) },
	{ "name", RECORD_TEXT, RECORD_AT(struct worker, name) },
	{ "system", RECORD_TEXT, RECORD_AT(struct worker, system) },
	{ "image", RECORD_TEXT, RECORD_AT(struct worker, image), .flags = RECORD_MUST },
	{ "partition", RECORD_TEXT, RECORD_AT(struct worker, partition) },
	{ "directory", RECORD_TEXT, RECORD_AT(struct worker, directory) },
	{ "options", RECORD_TEXTS, RECORD_AT(struct worker, options) },
	{ "command", RECORD_TEXTS, RECORD_AT(struct worker, command) },
	{ "run", RECORD_TEXT, RECORD_AT(struct worker, run) },
	{ "cpus", RECORD_NUMBER, RECORD_AT(struct worker, cpus) },
	{ "gpus", RECORD_NUMBER, RECORD_AT(struct worker, gpus) },
	{ "memory", RECORD_NUMBER, RECORD_AT(struct worker, memory) },
	{ "created", RECORD_NUMBER, RECORD_AT(struct worker, created) },
	{ "deadline", RECORD_NUMBER, RECORD_AT(struct worker, deadline) },
	{ "lists", RECORD_TEXTS, RECORD_AT(struct worker, lists) },
	{ "warning", RECORD_NUMBER, RECORD_AT(struct worker, warning) },
	{ "grace", RECORD_NUMBER, RECORD_AT(struct worker, grace) },
	{ "nodes", RECORD_NUMBER, RECORD_AT(struct worker, nodes) },
	{ NULL },
};

/* The events of `run`. */
static const struct record_row hold_rows[] = {
	{ "process", RECORD_TEXT, RECORD_AT(struct worker, process) },
	{ "node", RECORD_TEXT, RECORD_AT(struct worker, node) },
	{ NULL },
};
static const struct record_row up_rows[] = {
	{ "pid", RECORD_NUMBER, RECORD_AT(struct worker, pid) },
	{ "address", RECORD_TEXT, RECORD_AT(struct worker, address) },
	{ "time", RECORD_NUMBER, RECORD_AT(struct worker, ready) },
	{ NULL },
};
static const struct record_row end_rows[] = {
	{ "status", RECORD_NUMBER, RECORD_AT(struct worker, exit_status), .min = -1 },
	{ "why", RECORD_TEXT, RECORD_AT(struct worker, why) },
	{ "time", RECORD_NUMBER, RECORD_AT(struct worker, ended) },
	{ NULL },
};
static const struct {
	const char *name;
	const struct record_row *rows;
} events[] = { [WORKER_HOLD] = { "hold", hold_rows },
	[WORKER_UP] = { "up", up_rows },
	[WORKER_END] = { "end", end_rows } };

void worker_done(struct worker *w)
{
	record_done(worker_rows, w);
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		record_done(events[i].rows, w);
	free(w->key);
	free(w->state);
	free(w->reason);
	*w = (struct worker)WORKER_INIT;
}

void worker_set(char **text, const char *to)
{
	set_ptr(text, to ? xstrdup(to) : NULL);
}

void worker_list_done(struct worker_list *l)
{
	free_all(l->v, l->n, worker_done);
	*l = (struct worker_list){ 0 };
}

int worker_has_ended(const struct worker *w)
{
	return w->status >= WORKER_SUCCEEDED;
}

char *worker_host(const struct worker *w)
{
	return strcmp(w->system, "local") == 0 ? xstrdup(w->id) : xasprintf("worker-%s", w->id);
}

long worker_slots(const struct worker *w)
{
	return w->gpus > 0 ? w->gpus : w->cpus;
}

char *worker_describe(const struct worker *w)
{
	const char *name = worker_status_names[w->status];

	if (w->reason && *w->reason && w->status != WORKER_RUNNING)
		return xasprintf("%s (%s)", name, w->reason);
	if (w->status == WORKER_FAILED && w->exit_status > 0)
		return xasprintf("%s (%d)", name, w->exit_status);
	if (w->status == WORKER_FAILED && w->state && strcmp(w->state, "FAILED") != 0)
		return xasprintf("%s (%s)", name, w->state);
	return xstrdup(name);
}

static char *below(const struct worker *w, const char *file)
{
	return xasprintf(TOP "/%s/%s", w->key, file);
}

char *worker_path(const struct store *st, const struct worker *w, const char *file)
{
	return xasprintf("%s/" TOP "/%s/%s", store_path(st), w->key, file);
}

/* --- worker.json ----------------------------------------------------------------------------- */

int worker_make(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_free char *dir = NULL, *run = NULL;
	char key[RANDOM_HEX_SIZE];

	random_hex(key);
	w->key = xstrdup(key);
	if (file_mkdir_p(store_fd(st), TOP, 0700, err) < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	dir = xasprintf(TOP "/%s", key);
	run = below(w, "run");
	if (mkdirat(store_fd(st), dir, 0700) < 0)
		return mlr_fail_errno(err, "make '%s/%s'", store_path(st), dir);
	auto_close int fd = openat(
		store_fd(st), run, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? mlr_fail_errno(err, "make '%s/%s'", store_path(st), run) : 0;
}

int worker_write(struct store *st, const struct worker *w, struct mlr_error *err)
{
	auto_free char *path = below(w, "worker.json"), *text = NULL;
	json_auto_t *o = record_write(worker_rows, w);

	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	if (!text)
		return mlr_fail(err, ENOMEM, "a worker's record");
	return file_replace(store_fd(st), path, text, strlen(text), 0600, err);
}

static int read_wish(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_free char *path = below(w, "worker.json");

	TRY(store_json_take(st, path, worker_rows, w, err));
	return w->name && w->system
		? 0
		: store_json_bad(st, path, "it is not the record of a worker", err);
}

/* --- run ---------------------------------------------------------------------------------- */

/* Add an event by one write(2): a reader sees a whole line or none. The newline before it ends a
 * line that a full disk has cut; readers skip what is no object. */
int worker_tell(
	struct store *st, const struct worker *w, enum worker_event event, struct mlr_error *err)
{
	json_auto_t *o = record_write(events[event].rows, w);
	int named = json_object_set_new(o, "event", json_string(events[event].name));
	auto_free char *path = below(w, "run"),
		       *text = named == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
	auto_free char *line = xasprintf("\n%s\n", text ? text : "");
	auto_close int fd =
		openat(store_fd(st), path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : file_write_all(fd, line, strlen(line));

	if (!text)
		return mlr_fail(err, ENOMEM, "a line of '%s/%s'", store_path(st), path);
	return mlr_result(err, r, "write '%s/%s'", store_path(st), path);
}

static void take_event(const json_t *o, struct worker *w)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	const struct record_reader r = { .err = NULL };

	for (size_t i = 0; event && i < ARRAY_LEN(events); i++)
		if (strcmp(event, events[i].name) == 0)
			record_read(&r, events[i].rows, o, w);
}

static int read_run(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_free char *path = below(w, "run"), *text = NULL;
	char *rest, *line;
	int r = file_read(store_fd(st), path, RUN_MAX, &text, NULL, err);

	rest = text;
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		json_auto_t *o = *line ? json_loads(line, 0, NULL) : NULL;

		if (o)
			take_event(o, w);
	}
	return r;
}

int worker_read(struct store *st, const char *key, struct worker *ret, struct mlr_error *err)
{
	auto_call(worker_done) struct worker w = WORKER_INIT;

	w.key = xstrdup(key);
	TRY(read_wish(st, &w, err));
	TRY(read_run(st, &w, err));
	*ret = take_struct(&w, WORKER_INIT);
	return 0;
}

static int is_older(const void *a, const void *b)
{
	const struct worker *x = a, *y = b;

	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strverscmp(x->id ? x->id : "", y->id ? y->id : "");
}

/* The lock of local.c lies there, too. */
static int is_key(const char *name)
{
	return strlen(name) == RANDOM_HEX_SIZE - 1 &&
		strspn(name, "0123456789abcdef") == RANDOM_HEX_SIZE - 1;
}

int worker_read_all(struct store *st, struct worker_list *ret, struct mlr_error *err)
{
	auto_strv struct strv keys = STRV_INIT;
	int r = file_list(store_fd(st), TOP, O_NOFOLLOW, &keys);

	if (r < 0 && r != -ENOENT)
		return mlr_result(err, r, "list '%s/" TOP "'", store_path(st));
	for (size_t i = 0; i < keys.n; i++) {
		struct mlr_error why = MLR_ERROR_INIT;

		if (!is_key(keys.v[i]))
			continue;
		ret->v = xgrow(ret->v, ret->n, sizeof(*ret->v));
		r = worker_read(st, keys.v[i], &ret->v[ret->n], &why);
		if (r == 0)
			ret->n++;
		else if (r != -ENOENT) /* being made or removed */
			mlr_log_failure(MLR_WARNING, &why, ", ignoring");
	}
	sort_all(ret->v, ret->n, is_older);
	return 0;
}

int worker_remove(struct store *st, const struct worker *w, struct mlr_error *err)
{
	auto_free char *dir = xasprintf(TOP "/%s", w->key);

	return file_remove_tree(store_fd(st), dir, err);
}
