#include "web/run.h"

#include "base/account.h"
#include "base/json.h"
#include "base/record.h"
#include "web/lines.h"

#include <math.h>

#define METRICS_MAX 256 /* of a run */
#define VALUES_MAX  100
#define NOTES_MAX   10
#define HEAD_BYTES  ((off_t)4 << 10) /* of a large file of metrics that is read for the list */
#define TAIL_BYTES  ((off_t)12 << 10)

const char *const run_state_names[] = { "waiting", "running", "succeeded", "failed", "stopped",
	"lost", "unknown" };

/* --- run.json and end.json --------------------------------------------------------------- */

static const struct record_row wish_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct run_wish, name), .flags = RECORD_MUST },
	{ "experiment", RECORD_TEXT, RECORD_AT(struct run_wish, experiment), .flags = RECORD_MUST },
	{ "image", RECORD_TEXT, RECORD_AT(struct run_wish, image) },
	{ "command", RECORD_TEXTS, RECORD_AT(struct run_wish, command) },
	{ "place", RECORD_TEXT, RECORD_AT(struct run_wish, place) },
	{ "service", RECORD_TEXT, RECORD_AT(struct run_wish, service) },
	{ "node", RECORD_TEXT, RECORD_AT(struct run_wish, node) },
	{ "created", RECORD_REAL, RECORD_AT(struct run_wish, created) },
	{ "note", RECORD_TEXT, RECORD_AT(struct run_wish, note) },
	{ "tags", RECORD_TEXTS, RECORD_AT(struct run_wish, tags) },
	{ NULL },
};

/* The contents of end.json. */
struct end {
	enum run_state state;
	char *reason;
	double ended;
};

static const struct record_row end_rows[] = {
	{ "state", RECORD_WORD, RECORD_AT(struct end, state), RECORD_WORDS(run_state_names),
		.flags = RECORD_MUST },
	{ "reason", RECORD_TEXT, RECORD_AT(struct end, reason), .flags = RECORD_NULL },
	{ "ended", RECORD_REAL, RECORD_AT(struct end, ended) },
	{ NULL },
};

void run_wish_done(struct run_wish *w)
{
	record_done(wish_rows, w);
	*w = (struct run_wish){ 0 };
}

/* Read an object of a file by rows. Returns 0 or -errno. */
static int read_object(
	int dir, const char *name, const struct record_row *rows, void *to, struct mlr_error *err)
{
	const struct record_reader reader = { .err = err };
	auto_free char *text = NULL;
	json_error_t why;
	json_t *o;
	size_t len;
	int r;

	TRY(file_read_regular(dir, name, RUN_TEXT_MAX, &text, &len, err));
	o = mlr_json_load(text, len, 0, &why);
	if (!o)
		return mlr_fail(err, EPROTO, "%s: line %d: %s", name, why.line, why.text);
	r = record_read(&reader, rows, o, to);
	json_decref(o);
	return r < 0 ? mlr_wrap(err, "%s", name) : 0;
}

int run_read_wish(int dir, struct run_wish *ret, struct mlr_error *err)
{
	struct run_wish w = { 0 };
	int r = read_object(dir, "run.json", wish_rows, &w, err);

	if (r == 0)
		*ret = w;
	else
		run_wish_done(&w);
	return r;
}

static int write_object(int dir, const char *name, const struct record_row *rows, const void *from,
	int is_new, struct mlr_error *err)
{
	auto_free char *text = mlr_json_print(record_write(rows, from), JSON_INDENT(2));

	return (is_new ? file_create : file_replace)(dir, name, text, strlen(text), 0666, err);
}

int run_write_wish(int dir, const struct run_wish *w, int is_new, struct mlr_error *err)
{
	return write_object(dir, "run.json", wish_rows, w, is_new, err);
}

int run_write_end(int dir, const struct run *r, int is_new, struct mlr_error *err)
{
	const struct end end = { r->state, r->reason, r->ended };

	return write_object(dir, "end.json", end_rows, &end, is_new, err);
}

/* --- a run ------------------------------------------------------------------------------- */

void run_done(struct run *r)
{
	for (size_t i = 0; i < r->n_last; i++)
		free(r->last[i].name);
	for (size_t i = 0; i < r->n_values; i++) {
		free(r->values[i].key);
		free(r->values[i].value);
	}
	free(r->last);
	free(r->values);
	free(r->directory);
	free(r->metrics);
	free(r->log);
	free(r->reason);
	run_wish_done(&r->wish);
	strv_done(&r->notes);
	*r = (struct run){ 0 };
}

void run_id(const char *directory, char id[RUN_ID_SIZE])
{
	char hex[HASH_HEX_SIZE];

	hash_name(directory, hex);
	snprintf(id, RUN_ID_SIZE, "%.16s", hex);
}

char *run_service(const char *directory)
{
	auto_free char *s = xstrndup(path_base(directory), 40);
	char id[RUN_ID_SIZE];

	run_id(directory, id);
	for (char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			*c = '_';
	return xasprintf("%s%s-%.6s", isalnum((unsigned char)*s) ? "" : "r", s, id);
}

static void note(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct run *r, const char *fmt, ...)
{
	va_list ap;
	auto_free char *text = NULL;

	if (r->notes.n >= NOTES_MAX)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	if (!strv_has(&r->notes, text))
		strv_add(&r->notes, text);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct run_metric *)a)->name, ((const struct run_metric *)b)->name);
}

static const struct run_metric *metric_of(const struct run *r, const char *name)
{
	const struct run_metric key = { .name = (char *)name };

	return r->n_last ? bsearch(&key, r->last, r->n_last, sizeof(key), by_name) : NULL;
}

static void set_metric(struct run *r, const char *name, double value)
{
	struct run_metric *m = (struct run_metric *)metric_of(r, name);

	if (m) {
		m->value = value;
		return;
	}
	if (r->n_last == METRICS_MAX) {
		note(r, "it has more than %d metrics; the others are not listed", METRICS_MAX);
		return;
	}
	*xadd(r->last, r->n_last) = (struct run_metric){ xstrdup(name), value };
	sort_all(r->last, r->n_last, by_name);
}

const char *run_text(const struct run *r, const char *key)
{
	for (size_t i = 0; i < r->n_values; i++)
		if (strcmp(r->values[i].key, key) == 0)
			return r->values[i].value;
	return NULL;
}

static void set_value(struct run *r, const char *key, const json_t *v)
{
	char *text;

	if (r->n_values == VALUES_MAX || run_text(r, key))
		return;
	if (json_is_string(v))
		text = xstrdup(json_string_value(v));
	else if (json_is_number(v) || json_is_boolean(v))
		text = mlr_json_print(
			json_incref((json_t *)v), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	else
		return;
	*xadd(r->values, r->n_values) = (struct run_value){ xstrdup(key), text };
}

double run_number(const struct run *r, const char *key)
{
	const struct run_metric *m = metric_of(r, key);
	const char *text = m ? NULL : run_text(r, key);
	char *end;
	double v;

	if (m)
		return m->value;
	if (!text || !*text)
		return NAN;
	v = strtod(text, &end);
	return *end || !isfinite(v) ? NAN : v;
}

/* --- records ----------------------------------------------------------------------------- */

/* Those keys of a record say when it was, not what was measured. */
static int is_place(const char *key)
{
	static const char *const keys[] = { "step", "epoch", "epochs_done", "time", "timestamp",
		"seconds", "samples", "ranks", "generation", "_step", "_timestamp", "_runtime",
		"train_seconds", "evaluate_seconds", "checkpoint_seconds", "steps", "iteration" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			return 1;
	return 0;
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Take the place of a record in its run. */
static void take_place(struct run *r, const json_t *o)
{
	double step = lines_step(o);

	if (isnan(step))
		return;
	r->step = step;
	r->clock = number(o, "seconds");
	if (isnan(r->first_step)) {
		r->first_step = r->step;
		r->first_clock = r->clock;
	}
}

/* Take a record of settings: mltrain's "run". */
static void take_settings(struct run *r, const json_t *o)
{
	static const char *const omitted[] = { "event", "time", "version", "host", "seconds",
		"step" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)o, key, v) {
		size_t i = 0;

		while (i < ARRAY_LEN(omitted) && strcmp(key, omitted[i]) != 0)
			i++;
		if (i == ARRAY_LEN(omitted))
			set_value(r, key, v);
	}
	r->steps = number(o, "steps");
}

static void take_record(void *ctx, const char *text, size_t len)
{
	struct run *r = ctx;
	const char *key, *event;
	json_t *o, *v;
	int has_nan;

	if (len == 0)
		return;
	o = lines_parse(text, len, &has_nan);
	if (!o) {
		note(r, "%s has lines that are no JSON objects", r->metrics);
		return;
	}
	if (has_nan)
		note(r, "%s has values that are not finite", r->metrics);
	event = json_string_value(json_object_get(o, "event"));
	if (event && strcmp(event, "run") == 0)
		take_settings(r, o);
	else if (!event ||
		(strcmp(event, "load") && strcmp(event, "test") && strcmp(event, "ranks"))) {
		take_place(r, o);
		json_object_foreach(o, key, v)
			if (json_is_number(v) && !is_place(key))
				set_metric(r, key, json_number_value(v));
	}
	json_decref(o);
}

/* The offset of the first line that begins at or behind one. */
static off_t line_behind(int fd, off_t at, off_t end)
{
	char buf[4096], *newline;
	ssize_t n;

	for (; at < end && (n = pread(fd, buf, sizeof(buf), at)) > 0; at += n)
		if ((newline = memchr(buf, '\n', (size_t)n)))
			return at + (newline - buf) + 1;
	return end;
}

/* Read the metrics' beginning and end, or what has been added. */
static void read_metrics(struct run *r, int fd, off_t size)
{
	off_t at;

	if (size - r->read > HEAD_BYTES + TAIL_BYTES) {
		if (r->read == 0)
			lines_read(fd, 0, HEAD_BYTES, take_record, r);
		r->read = line_behind(fd, size - TAIL_BYTES, size);
	}
	at = lines_read(fd, r->read, size, take_record, r);
	if (at > r->read)
		r->read = at;
}

/* --- the directory ----------------------------------------------------------------------- */

static int open_at(int dir, const char *name, struct stat *st)
{
	auto_close int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 || fstat(fd, st) < 0)
		return -errno;
	return S_ISREG(st->st_mode) ? take_fd(&fd) : -EINVAL;
}

int run_open(const struct run *r, const char *name, struct stat *st)
{
	auto_close int dir = open(r->directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir < 0 ? -errno : open_at(dir, name, st);
}

static int is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Choose between two file names: the wanted one, else the first. */
static void prefer(char **have, const char *name, const char *wanted)
{
	if (!*have || strcmp(name, wanted) == 0 ||
		(strcmp(*have, wanted) != 0 && strcmp(name, *have) < 0))
		set_ptr(have, xstrdup(name));
}

/* Find its files by their names. Returns whether there is anything of a run. */
static int find_files(int dir, struct run *r)
{
	auto_dir DIR *d = file_open_dir(dir, ".", O_NOFOLLOW);
	int has_wish = 0;

	for (struct dirent *e; (e = file_next(d));) {
		if (e->d_type != DT_REG && e->d_type != DT_UNKNOWN)
			continue;
		if (strcmp(e->d_name, "run.json") == 0)
			has_wish = 1;
		else if (path_ends(e->d_name, ".jsonl"))
			prefer(&r->metrics, e->d_name, "metrics.jsonl");
		else if (strcmp(e->d_name, "log") == 0 || path_ends(e->d_name, ".log"))
			prefer(&r->log, e->d_name, "log");
	}
	return has_wish || r->metrics;
}

/* The last two names of its path stand for those that others' runs do not have. */
static void name_by_path(struct run *r)
{
	auto_free char *parent = path_dir(r->directory);

	if (!r->wish.name)
		r->wish.name = xstrdup(path_base(r->directory));
	if (!r->wish.experiment)
		r->wish.experiment = xstrdup(path_base(parent));
}

int run_is_own(int dir)
{
	struct stat d, wish;

	return fstat(dir, &d) == 0 && fstatat(dir, "run.json", &wish, AT_SYMLINK_NOFOLLOW) == 0 &&
		d.st_uid == getuid() && wish.st_uid == getuid() && S_ISREG(wish.st_mode) &&
		!account_others_write(&d) && !account_others_write(&wish);
}

/* Read run.json and end.json. */
static void read_objects(int dir, struct run *r)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct end end = { .state = RUN_UNKNOWN, .ended = NAN };

	if (fstatat(dir, "run.json", &r->of_wish, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (run_read_wish(dir, &r->wish, &err) < 0) {
		note(r, "%s", err.text);
		return;
	}
	r->started = r->wish.created;
	r->is_own = run_is_own(dir);
	if (r->wish.service) /* the run's command can write run.json: it names no other service */
		set_ptr(&r->wish.service, run_service(r->directory));
	r->state = RUN_WAITING;
	fstatat(dir, "end.json", &r->of_end, AT_SYMLINK_NOFOLLOW);
	if (r->of_end.st_ino && read_object(dir, "end.json", end_rows, &end, &err) == 0) {
		r->state = end.state;
		r->reason = end.reason;
		r->ended = end.ended;
		r->has_end = 1;
	} else {
		free(end.reason);
	}
}

/* Read the metrics. Returns whether it is a run. */
static int read_all(int dir, struct run *r)
{
	auto_close int fd = r->metrics ? open_at(dir, r->metrics, &r->of_metrics) : -ENOENT;

	if (fd < 0 && r->metrics) {
		note(r, "%s: %s", r->metrics, strerror(-fd));
		set_ptr(&r->metrics, NULL);
	}
	if (fd < 0)
		return r->of_wish.st_ino != 0;
	read_metrics(r, fd, r->of_metrics.st_size);
	return r->of_wish.st_ino || r->n_last || r->n_values || !isnan(r->step);
}

/* Are all files as they were? */
static int is_unchanged(int dir, const struct run *was, const char *metrics, const char *log)
{
	const struct {
		const char *name;
		const struct stat *was;
	} files[] = { { "run.json", &was->of_wish }, { "end.json", &was->of_end },
		{ metrics, &was->of_metrics }, { log, &was->of_log } };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct stat now = { 0 };

		if (files[i].name)
			fstatat(dir, files[i].name, &now, AT_SYMLINK_NOFOLLOW);
		if (!is_same(&now, files[i].was))
			return 0;
	}
	return 1;
}

int run_read(int dir, const char *path, const struct run *was, struct run *ret)
{
	struct run r = { .state = RUN_UNKNOWN,
		.started = NAN,
		.ended = NAN,
		.step = NAN,
		.steps = NAN,
		.clock = NAN,
		.first_step = NAN,
		.first_clock = NAN };
	int is_run = find_files(dir, &r) && fstat(dir, &r.of_directory) == 0;

	if (is_run && was && r.of_directory.st_mode == was->of_directory.st_mode &&
		r.of_directory.st_uid == was->of_directory.st_uid &&
		is_unchanged(dir, was, r.metrics, r.log)) {
		run_done(&r);
		return RUN_SAME;
	}
	if (is_run) {
		r.directory = xstrdup(path);
		run_id(path, r.id);
		r.owner = r.of_directory.st_uid;
		read_objects(dir, &r);
		is_run = read_all(dir, &r);
	}
	if (!is_run) {
		run_done(&r);
		return 0;
	}
	if (r.log && fstatat(dir, r.log, &r.of_log, AT_SYMLINK_NOFOLLOW) == 0 &&
		!S_ISREG(r.of_log.st_mode))
		set_ptr(&r.log, NULL);
	name_by_path(&r);
	*ret = r;
	return 1;
}

int run_read_on(struct run *r)
{
	struct stat now;
	int more = 0;
	auto_close int fd = r->metrics ? run_open(r, r->metrics, &now) : -ENOENT;
	auto_close int log = -1;

	if (fd >= 0 && !is_same(&now, &r->of_metrics)) {
		if (now.st_size < r->read)
			r->read = 0; /* it was begun again */
		r->of_metrics = now;
		read_metrics(r, fd, now.st_size);
		more |= RUN_MORE_METRICS;
	}
	log = r->log ? run_open(r, r->log, &now) : -ENOENT;
	if (log >= 0 && !is_same(&now, &r->of_log)) {
		r->of_log = now;
		more |= RUN_MORE_LOG;
	}
	return more;
}

/* --- for people -------------------------------------------------------------------------- */

double run_progress(const struct run *r)
{
	return r->steps > 0 && r->step >= 0 && r->step <= r->steps ? r->step / r->steps : NAN;
}

double run_left(const struct run *r)
{
	double rate = (r->step - r->first_step) / (r->clock - r->first_clock);

	return r->state == RUN_RUNNING && rate > 0 && r->steps >= r->step
		? (r->steps - r->step) / rate
		: NAN;
}

double run_changed(const struct run *r)
{
	const struct stat *of[] = { &r->of_metrics, &r->of_log, &r->of_wish, &r->of_end };
	double last = 0;

	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		double t = (double)of[i]->st_mtim.tv_sec + (double)of[i]->st_mtim.tv_nsec * 1e-9;

		last = t > last ? t : last;
	}
	return last;
}

json_t *run_json(const struct run *r)
{
	json_t *metrics = json_object(), *values = json_object();
	struct account owner = { 0 };

	for (size_t i = 0; i < r->n_last; i++)
		json_object_set_new(metrics, r->last[i].name, mlr_json_real(r->last[i].value));
	for (size_t i = 0; i < r->n_values; i++)
		json_object_set_new(values, r->values[i].key, mlr_json_text(r->values[i].value));
	if (r->owner != getuid())
		account_find_user(r->owner, &owner);
	metrics = json_pack("{so so so so ss so so so so so so so so so so so so so so}", "id",
		mlr_json_text(r->id), "name", mlr_json_text(r->wish.name), "experiment",
		mlr_json_text(r->wish.experiment), "directory", mlr_json_text(r->directory),
		"state", run_state_names[r->state], "reason", mlr_json_text(r->reason), "started",
		mlr_json_real(r->started), "ended", mlr_json_real(r->ended), "changed",
		mlr_json_real(run_changed(r)), "progress", mlr_json_real(run_progress(r)), "left",
		mlr_json_real(run_left(r)), "metrics", metrics, "values", values, "place",
		mlr_json_text(r->wish.place), "image", mlr_json_text(r->wish.image), "note",
		mlr_json_text(r->wish.note ? r->wish.note : ""), "tags",
		mlr_json_texts(&r->wish.tags), "owner",
		r->owner == getuid() ? json_null() : mlr_json_text(owner.user), "is_own",
		json_boolean(r->is_own));
	account_done(&owner);
	return metrics;
}
