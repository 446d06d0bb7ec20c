#include "work/worker.h"

#include "base/base.h"
#include "base/json.h"
#include "store/json.h"
#include "store/process.h"

#define TOP     "workers"
#define RUN_MAX (1u << 16) /* bytes of `run` */

const char *const worker_status_names[] = {
	[WORKER_PENDING] = "pending",
	[WORKER_STARTING] = "starting",
	[WORKER_RUNNING] = "running",
	[WORKER_SUCCEEDED] = "succeeded",
	[WORKER_FAILED] = "failed",
	[WORKER_STOPPED] = "stopped",
	[WORKER_TIMEDOUT] = "timedout",
	[WORKER_LOST] = "lost",
};

void worker_done(struct worker *w)
{
	char **const texts[] = { &w->key, &w->id, &w->name, &w->system, &w->image, &w->partition,
		&w->directory, &w->process, &w->node, &w->address, &w->why, &w->state, &w->reason,
		&w->last, &w->run };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(*texts[i]);
	strv_done(&w->options);
	strv_done(&w->command);
	strv_done(&w->lists);
	*w = (struct worker)WORKER_INIT;
}

void worker_list_done(struct worker_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		worker_done(&l->v[i]);
	free(l->v);
	*l = (struct worker_list)WORKER_LIST_INIT;
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
	int r = file_mkdir_p(store_fd(st), TOP, 0700, err);

	if (r < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	random_hex(key);
	w->key = xstrdup(key);
	dir = xasprintf(TOP "/%s", key);
	run = below(w, "run");
	if (mkdirat(store_fd(st), dir, 0700) < 0)
		return mlr_fail_errno(err, "make '%s/%s'", store_path(st), dir);
	auto_close int fd = openat(
		store_fd(st), run, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? mlr_fail_errno(err, "make '%s/%s'", store_path(st), run) : 0;
}

json_t *worker_wish(const struct worker *w)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:o, "
		"s:I, s:I, s:I}",
		"last", mlr_json_text(w->last), "id", mlr_json_text(w->id), "name",
		mlr_json_text(w->name), "system", mlr_json_text(w->system), "image",
		mlr_json_text(w->image), "partition", mlr_json_text(w->partition), "directory",
		mlr_json_text(w->directory), "options", mlr_json_texts(&w->options), "command",
		mlr_json_texts(&w->command), "run", mlr_json_text(w->run), "cpus",
		(json_int_t)w->cpus, "gpus", (json_int_t)w->gpus, "memory", (json_int_t)w->memory,
		"created", (json_int_t)w->created, "deadline", (json_int_t)w->deadline, "lists",
		mlr_json_texts(&w->lists), "warning", (json_int_t)w->warning, "grace",
		(json_int_t)w->grace, "nodes", (json_int_t)w->nodes);
}

int worker_write(struct store *st, const struct worker *w, struct mlr_error *err)
{
	auto_free char *path = below(w, "worker.json"), *text = NULL;
	json_auto_t *o = worker_wish(w);

	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	if (!text)
		return mlr_fail(err, ENOMEM, "a worker's record");
	return file_replace(store_fd(st), path, text, strlen(text), 0600, err);
}

static int64_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

int worker_read_wish(const json_t *o, struct worker *w)
{
	const struct {
		const char *key;
		char **to;
	} texts[] = { { "id", &w->id }, { "last", &w->last }, { "name", &w->name },
		{ "system", &w->system }, { "image", &w->image }, { "partition", &w->partition },
		{ "directory", &w->directory }, { "run", &w->run } };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (store_json_string(o, texts[i].key, texts[i].to) < 0)
			return -EPROTO;
	if (store_json_strv(o, "options", &w->options) < 0 ||
		store_json_strv(o, "command", &w->command) < 0 ||
		store_json_strv(o, "lists", &w->lists) < 0 || !w->image || !w->name)
		return -EPROTO;
	w->cpus = (long)number(o, "cpus");
	w->gpus = (long)number(o, "gpus");
	w->memory = (uint64_t)number(o, "memory");
	w->created = number(o, "created");
	w->deadline = number(o, "deadline");
	w->warning = (long)number(o, "warning");
	w->grace = (long)number(o, "grace");
	w->nodes = (long)number(o, "nodes");
	return 0;
}

static int read_wish(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_free char *path = below(w, "worker.json");
	json_auto_t *o = NULL;

	TRY(store_json_read(st, path, &o, err));
	if (worker_read_wish(o, w) < 0 || !w->system)
		return mlr_fail(err, EPROTO, "'%s/%s' is damaged", store_path(st), path);
	return 0;
}

/* --- run ---------------------------------------------------------------------------------- */

/* One write(2): a reader sees a whole line or none. The newline before it ends one that a full disk
 * has cut; readers skip what is no object. */
static int tell(struct store *st, const struct worker *w, json_t *o, struct mlr_error *err)
{
	auto_free char *path = below(w, "run"), *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	auto_free char *line = xasprintf("\n%s\n", text ? text : "");
	auto_close int fd =
		openat(store_fd(st), path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : file_write_all(fd, line, strlen(line));

	json_decref(o);
	if (!text)
		return mlr_fail(err, ENOMEM, "a line of '%s/%s'", store_path(st), path);
	return r < 0 ? mlr_fail(err, -r, "write '%s/%s': %s", store_path(st), path, strerror(-r))
		     : 0;
}

int worker_tell_hold(struct store *st, const struct worker *w, struct mlr_error *err)
{
	return tell(st, w,
		json_pack("{s:s, s:o, s:o}", "event", "hold", "process", mlr_json_text(w->process),
			"node", mlr_json_text(w->node)),
		err);
}

int worker_tell_up(struct store *st, const struct worker *w, struct mlr_error *err)
{
	return tell(st, w,
		json_pack("{s:s, s:I, s:o, s:I}", "event", "up", "pid", (json_int_t)w->pid,
			"address", mlr_json_text(w->address), "time", (json_int_t)time(NULL)),
		err);
}

int worker_tell_end(struct store *st, const struct worker *w, struct mlr_error *err)
{
	return tell(st, w,
		json_pack("{s:s, s:i, s:o, s:I}", "event", "end", "status", w->exit_status, "why",
			mlr_json_text(w->why), "time", (json_int_t)time(NULL)),
		err);
}

static void take_text(const json_t *o, const char *key, char **ret)
{
	free(*ret);
	*ret = NULL;
	(void)store_json_string(o, key, ret);
}

static void take_event(const json_t *o, struct worker *w)
{
	const char *event = json_string_value(json_object_get(o, "event"));

	if (!event)
		return;
	if (strcmp(event, "hold") == 0) {
		take_text(o, "process", &w->process);
		take_text(o, "node", &w->node);
	} else if (strcmp(event, "up") == 0) {
		w->pid = (pid_t)number(o, "pid");
		take_text(o, "address", &w->address);
		w->ready = number(o, "time");
	} else if (strcmp(event, "end") == 0) {
		w->exit_status = (int)number(o, "status");
		take_text(o, "why", &w->why);
		w->ended = number(o, "time");
	}
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
	int r;

	w.key = xstrdup(key);
	r = read_wish(st, &w, err);
	if (r == 0)
		r = read_run(st, &w, err);
	if (r < 0)
		return r;
	*ret = w;
	w = (struct worker)WORKER_INIT;
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
		return mlr_fail(err, -r, "list '%s/" TOP "': %s", store_path(st), strerror(-r));
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
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof(*ret->v), is_older);
	return 0;
}

int worker_remove(struct store *st, const struct worker *w, struct mlr_error *err)
{
	auto_free char *dir = xasprintf(TOP "/%s", w->key);

	return file_remove_tree(store_fd(st), dir, err);
}
