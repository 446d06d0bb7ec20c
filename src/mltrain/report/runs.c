#include "report/runs.h"

#include "base/json.h"
#include "report/html.h"

#include <math.h>

#define NOTES_MAX      20
#define NAME_MAX_BYTES 60

/* --- the record "test": a network's mistakes ------------------------------------------------- */

void run_test_done(struct test *t)
{
	for (int i = 0; i < t->classes && t->names; i++)
		free(t->names[i]);
	for (size_t i = 0; i < t->n_mistakes; i++)
		free(t->mistakes[i].png);
	free(t->names);
	free(t->confusion);
	free(t->mistakes);
	*t = (struct test){ 0 };
}

int run_test_is_png(const char *s)
{
	static const char head[] = "iVBORw0KGgo"; /* 89 50 4e 47 0d 0a 1a 0a */
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(s), body = strspn(s, alphabet);

	return strncmp(s, head, sizeof(head) - 1) == 0 && n <= RUNS_PNG_MAX && n % 4 == 0 &&
		n - body <= 2 && strspn(s + body, "=") == n - body;
}

static int read_confusion(const json_t *rows, struct test *t)
{
	size_t n = json_array_size(rows);

	if (n < 1 || n > RUNS_CLASSES_MAX)
		return -EPROTO;
	t->confusion = calloc(n * n, sizeof(*t->confusion));
	if (!t->confusion)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(rows, i);

		if (json_array_size(row) != n)
			return -EPROTO;
		for (size_t k = 0; k < n; k++) {
			const json_t *v = json_array_get(row, k);
			json_int_t count = json_integer_value(v);

			/* limited, so that a sum of a thousand does not overflow */
			if (!json_is_integer(v) || count < 0 || count > INT64_C(1) << 40)
				return -EPROTO;
			t->confusion[i * n + k] = count;
		}
	}
	t->classes = (int)n;
	return 0;
}

static void read_names(const json_t *names, struct test *t)
{
	t->names = xcalloc((size_t)t->classes, sizeof(*t->names));
	for (int i = 0; i < t->classes; i++) {
		const char *name = json_string_value(json_array_get(names, (size_t)i));

		t->names[i] = name ? html_cut(name, NAME_MAX_BYTES) : xasprintf("%d", i);
	}
}

static int read_mistake(const json_t *record, int classes, struct mistake *ret)
{
	const json_t *label = json_object_get(record, "label");
	const json_t *guess = json_object_get(record, "guess");
	const json_t *probability = json_object_get(record, "probability");
	const char *png = json_string_value(json_object_get(record, "png"));
	double p = json_number_value(probability);

	if (!json_is_integer(label) || !json_is_integer(guess) || json_integer_value(label) < 0 ||
		json_integer_value(guess) < 0 || json_integer_value(label) >= classes ||
		json_integer_value(guess) >= classes)
		return -EPROTO;
	*ret = (struct mistake){ .index = json_integer_value(json_object_get(record, "index")),
		.label = (int)json_integer_value(label),
		.guess = (int)json_integer_value(guess),
		.probability = json_is_number(probability) && p >= 0 && p <= 1 ? p : NAN,
		.png = png && run_test_is_png(png) ? xstrdup(png) : NULL };
	return 0;
}

static void read_mistakes(const json_t *list, struct test *t)
{
	size_t n = json_array_size(list);

	if (n > RUNS_MISTAKES_MAX)
		n = RUNS_MISTAKES_MAX;
	t->mistakes = xcalloc(n ? n : 1, sizeof(*t->mistakes));
	for (size_t i = 0; i < n; i++)
		if (read_mistake(
			    json_array_get(list, i), t->classes, &t->mistakes[t->n_mistakes]) == 0)
			t->n_mistakes++;
}

int run_test_read(const json_t *record, struct test *ret)
{
	int r;

	run_test_done(ret);
	r = read_confusion(json_object_get(record, "confusion"), ret);
	if (r < 0) {
		run_test_done(ret);
		return r;
	}
	read_names(json_object_get(record, "names"), ret);
	read_mistakes(json_object_get(record, "mistakes"), ret);
	return 0;
}

/* --- runs --------------------------------------------------------------------------------- */

static void curve_done(struct curve *c, double step)
{
	free(c->step);
	free(c->time);
	free(c->y);
}

/* Call fn for every curve of a run. */
static void each_curve(struct run *r, void (*fn)(struct curve *c, double step), double step)
{
	struct curve *curves[] = { &r->loss, &r->cross_entropy, &r->batch_error,
		&r->validation_error, &r->lr, &r->rate, &r->cpu_process, &r->cpu_node, &r->rss,
		&r->ranks };

	for (size_t i = 0; i < ARRAY_LEN(curves); i++)
		fn(curves[i], step);
	for (int i = 0; i < r->n_gpus; i++) {
		fn(&r->gpus[i].percent, step);
		fn(&r->gpus[i].memory, step);
		fn(&r->gpus[i].power, step);
		fn(&r->gpus[i].temperature, step);
	}
}

static void run_done(struct run *r)
{
	each_curve(r, curve_done, 0);
	for (int i = 0; i < r->n_gpus; i++)
		free(r->gpus[i].name);
	for (size_t i = 0; i < r->n_facts; i++) {
		free(r->facts[i].key);
		free(r->facts[i].value);
	}
	free(r->facts);
	free(r->label);
	free(r->path);
	free(r->error);
	run_test_done(&r->test);
}

void runs_done(struct runs *r)
{
	for (size_t i = 0; i < r->n; i++)
		run_done(&r->v[i]);
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i]);
	free(r->v);
	free(r->notes);
	*r = (struct runs){ 0 };
}

const char *run_fact(const struct run *r, const char *key)
{
	for (size_t i = 0; i < r->n_facts; i++)
		if (strcmp(r->facts[i].key, key) == 0)
			return r->facts[i].value;
	return NULL;
}

/* --- a reader of one log ---------------------------------------------------------- */

struct reader {
	struct runs *to;
	const char *path;
	size_t line, damaged;
	struct run *run; /* the current one, in to->v; NULL before the first */
	size_t before;   /* runs of other logs */
};

/* Copy text of any bytes as UTF-8, cut to the size shown. */
static char *copy_text(const char *s)
{
	json_auto_t *text = mlr_json_text(s);

	return html_cut(json_string_value(text), RUNS_TEXT_MAX);
}

static void note(struct reader *r, const char *what)
{
	struct runs *to = r->to;

	if (r->damaged++ >= NOTES_MAX)
		return;
	auto_free char *text = xasprintf("'%s' line %zu: %s, skipped", r->path, r->line, what);

	*xadd(to->notes, to->n_notes) = copy_text(text);
}

/* Read a number that can be drawn, or NAN. */
static double number(const json_t *record, const char *key)
{
	double v = json_number_value(json_object_get(record, key));

	if (!json_is_number(json_object_get(record, key)) || !isfinite(v) || fabs(v) > 1e30)
		return NAN;
	return v;
}

/* The same, not negative. */
static double amount(const json_t *record, const char *key)
{
	double v = number(record, key);

	return v >= 0 ? v : NAN;
}

/* An unknown value does not replace a known one. */
static void update(double *to, double v)
{
	if (!isnan(v))
		*to = v;
}

static void curve_add(struct curve *c, double step, double time, double y)
{
	if (isnan(step) || isnan(y) || c->n >= RUNS_POINTS_MAX)
		return;
	if (c->n && step < c->step[c->n - 1])
		return; /* a curve goes to the right only */
	if (c->n)       /* likewise; fmax() of NAN and a number is the number */
		time = fmax(time, c->time[c->n - 1]);
	c->step = xgrow(c->step, c->n, sizeof(double));
	c->time = xgrow(c->time, c->n, sizeof(double));
	c->y = xgrow(c->y, c->n, sizeof(double));
	c->step[c->n] = step;
	c->time[c->n] = isnan(time) ? 0 : time;
	c->y[c->n++] = y;
}

static void curve_cut(struct curve *c, double step)
{
	while (c->n && c->step[c->n - 1] > step)
		c->n--;
}

/* --- records ------------------------------------------------------------------------- */

/* Name a run after its log: "runs/gpu.jsonl" is "gpu", its second run "gpu (2)". */
static char *label_of(const struct reader *r)
{
	const char *base = path_base(r->path), *dot = strrchr(base, '.');
	size_t nth = r->to->n - r->before + 1;
	auto_free char *stem =
		xstrndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
	auto_free char *label = nth > 1 ? xasprintf("%s (%zu)", stem, nth) : xstrdup(stem);

	return copy_text(label);
}

static int run_new(struct reader *r, struct mlr_error *err)
{
	struct runs *to = r->to;
	struct run *run;

	if (to->n >= RUNS_MAX)
		return mlr_fail(err, E2BIG, "'%s' line %zu: more than %d runs in one report",
			r->path, r->line, RUNS_MAX);
	auto_free char *label = label_of(r); /* which counts the runs before it */

	run = xadd(to->v, to->n);
	*run = (struct run){ .label = take_ptr(&label), .path = copy_text(r->path) };
	run->step = run->steps = run->epochs_done = run->batch = run->test_error = NAN;
	run->images_per_second = run->load_s = run->train_s = run->evaluate_s = NAN;
	run->checkpoint_s = run->total_s = run->rate_step = run->clock_s = NAN;
	r->run = run;
	return 0;
}

/* Format a value: a string as it is, a number as JSON, an object as "kind exponential, decay 0.95".
 */
static char *value_text(const json_t *v)
{
	auto_free char *text = NULL;
	const char *key;
	json_t *inner;

	if (json_is_string(v))
		return copy_text(json_string_value(v));
	if (!json_is_object(v)) {
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
		return copy_text(text ? text : "");
	}
	text = xstrdup("");
	json_object_foreach((json_t *)v, key, inner) {
		auto_free char *dumped =
			json_dumps(inner, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
		auto_free char *before = take_ptr(&text);
		const char *word = json_is_string(inner) ? json_string_value(inner) : dumped;

		text = xasprintf("%s%s%s %s", before, *before ? ", " : "", key, word ? word : "");
		if (strlen(text) > RUNS_TEXT_MAX)
			break;
	}
	return copy_text(text);
}

static void set_fact(struct run *run, const char *key, const json_t *v)
{
	char *value = value_text(v);

	for (size_t i = 0; i < run->n_facts; i++)
		if (strcmp(run->facts[i].key, key) == 0) {
			free(run->facts[i].value);
			run->facts[i].value = value;
			return;
		}
	if (run->n_facts >= RUNS_FACTS_MAX) {
		free(value);
		return;
	}
	*xadd(run->facts, run->n_facts) = (struct fact){ copy_text(key), value };
}

/* Add the facts of the record, and those of an object in it such as "recipe". */
static void set_facts(struct run *run, const json_t *record, int depth)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)record, key, v) {
		if (json_is_null(v) || strcmp(key, "event") == 0 || strcmp(key, "seconds") == 0 ||
			strcmp(key, "step") == 0)
			continue;
		if (json_is_object(v) && depth == 0)
			set_facts(run, v, 1);
		else
			set_fact(run, key, v);
	}
}

static void resume(struct run *run, double step)
{
	each_curve(run, curve_cut, step);
	run->offset_s = isnan(run->total_s) ? 0 : run->total_s;
	run->rate_step = NAN;
	run->outcome = RUN_CUT;
	free(take_ptr(&run->error));
}

static int read_run(struct reader *r, const json_t *record, struct mlr_error *err)
{
	double step = amount(record, "step");

	if (r->run && step > 0) {
		resume(r->run, step);
	} else {
		TRY(run_new(r, err));
		update(&r->run->load_s, amount(record, "seconds"));
	}
	set_facts(r->run, record, 0);
	update(&r->run->batch, amount(record, "batch"));
	update(&r->run->steps, amount(record, "steps"));
	return 0;
}

/* Compute images per second between two step records; the mean over the run would blur it. */
static void read_rate(struct run *run, double step, double time, double train_s)
{
	if (!isnan(run->rate_step) && step > run->rate_step && train_s > run->rate_seconds &&
		!isnan(run->batch))
		curve_add(&run->rate, step, time,
			(step - run->rate_step) * run->batch / (train_s - run->rate_seconds));
	if (isnan(train_s) || isnan(step))
		return;
	run->rate_step = step;
	run->rate_seconds = train_s;
}

/* Elastic ranks: a stair, of which a change is a vertical, and the end one down to 0. */
static void add_ranks(struct run *run, double step, double clock, double ranks)
{
	struct curve *c = &run->ranks;

	if (c->n)
		curve_add(c, step, clock, c->y[c->n - 1]);
	curve_add(c, step, clock, ranks);
}

static void read_ranks(struct reader *r, const char *event, const json_t *record)
{
	struct run *run = r->run;
	double clock = amount(record, "clock");

	add_ranks(run, amount(record, "step"), clock, amount(record, "ranks"));
	run->clock_s = clock - amount(record, "seconds");
}

static int is_end(const char *event)
{
	return strcmp(event, "interrupted") == 0 || strcmp(event, "end") == 0;
}

static void read_state(struct reader *r, const char *event, const json_t *record)
{
	struct run *run = r->run;
	double step = amount(record, "step"), t = amount(record, "seconds") + run->offset_s;

	update(&run->step, step);
	if (run->ranks.n)
		add_ranks(run, step, amount(record, "seconds") + run->clock_s,
			is_end(event) ? 0 : run->ranks.y[run->ranks.n - 1]);
	update(&run->epochs_done, amount(record, "epochs_done"));
	update(&run->test_error, amount(record, "test_error"));
	update(&run->images_per_second, amount(record, "images_per_second"));
	update(&run->train_s, amount(record, "train_seconds"));
	update(&run->evaluate_s, amount(record, "evaluate_seconds"));
	update(&run->checkpoint_s, amount(record, "checkpoint_seconds"));
	if (strcmp(event, "step") == 0) {
		curve_add(&run->loss, step, t, number(record, "loss"));
		curve_add(&run->cross_entropy, step, t, number(record, "cross_entropy"));
		curve_add(&run->batch_error, step, t, amount(record, "batch_error"));
		curve_add(&run->lr, step, t, amount(record, "lr"));
		read_rate(run, step, t, amount(record, "train_seconds"));
	} else if (strcmp(event, "epoch") == 0 || strcmp(event, "validated") == 0) {
		curve_add(&run->validation_error, step, t, amount(record, "validation_error"));
	} else if (strcmp(event, "interrupted") == 0) {
		run->outcome = RUN_INTERRUPTED;
	} else if (strcmp(event, "end") == 0) {
		run->outcome = RUN_ENDED;
	}
}

static struct run_gpu *find_gpu(struct run *run, const json_t *record)
{
	double index = amount(record, "index");
	const char *name = json_string_value(json_object_get(record, "name"));

	if (isnan(index) || index > 1e6)
		return NULL;
	for (int i = 0; i < run->n_gpus; i++)
		if (run->gpus[i].index == (int)index)
			return &run->gpus[i];
	if (run->n_gpus == RUNS_GPUS_MAX)
		return NULL;
	run->gpus[run->n_gpus].index = (int)index;
	run->gpus[run->n_gpus].name = copy_text(name ? name : "");
	return &run->gpus[run->n_gpus++];
}

static void read_load(struct reader *r, const char *event, const json_t *record)
{
	struct run *run = r->run;
	double step = amount(record, "step"), t = amount(record, "seconds") + run->offset_s;
	json_t *g;
	size_t i;

	curve_add(&run->cpu_process, step, t, amount(record, "cpu_process_percent"));
	curve_add(&run->cpu_node, step, t, amount(record, "cpu_node_percent"));
	curve_add(&run->rss, step, t, amount(record, "rss_bytes"));
	json_array_foreach(json_object_get(record, "gpus"), i, g) {
		struct run_gpu *gpu = find_gpu(run, g);

		if (!gpu)
			continue;
		curve_add(&gpu->percent, step, t, amount(g, "percent"));
		curve_add(&gpu->memory, step, t, amount(g, "memory_bytes"));
		curve_add(&gpu->power, step, t, amount(g, "power_watts"));
		curve_add(&gpu->temperature, step, t, amount(g, "temperature_celsius"));
	}
}

static void read_failure(struct reader *r, const char *event, const json_t *record)
{
	struct run *run = r->run;
	const char *why = json_string_value(json_object_get(record, "error"));

	run->outcome = RUN_FAILED;
	free(run->error);
	run->error = copy_text(why ? why : "");
}

static void read_test(struct reader *r, const char *event, const json_t *record)
{
	if (run_test_read(record, &r->run->test) < 0)
		note(r, "a record of a test that does not fit together");
}

/* The records that belong to a run which has begun. */
static const struct {
	const char *event;
	void (*read)(struct reader *r, const char *event, const json_t *record);
} events[] = { { "step", read_state }, { "validated", read_state }, { "epoch", read_state },
	{ "saved", read_state }, { "interrupted", read_state }, { "end", read_state },
	{ "load", read_load }, { "ranks", read_ranks }, { "failed", read_failure },
	{ "test", read_test } };

static int read_record(struct reader *r, const json_t *record, struct mlr_error *err)
{
	const char *event = json_string_value(json_object_get(record, "event"));
	size_t i = 0;

	if (!event) {
		note(r, "not a record of a run");
		return 0;
	}
	while (i < ARRAY_LEN(events) && strcmp(event, events[i].event) != 0)
		i++;
	if (strcmp(event, "run") == 0)
		TRY(read_run(r, record, err));
	else if (i == ARRAY_LEN(events))
		return 0;
	else if (!r->run) /* the beginning of the log is missing */
		TRY(run_new(r, err));
	update(&r->run->total_s, amount(record, "seconds") + r->run->offset_s);
	if (i < ARRAY_LEN(events))
		events[i].read(r, event, record);
	return 0;
}

static int read_line(
	struct reader *r, const char *line, size_t len, int whole, struct mlr_error *err)
{
	json_error_t why;
	json_t *record;
	int e = 0;

	r->line++;
	if (!len)
		return 0;
	if (len > RUNS_LINE_MAX) {
		note(r, "longer than any record");
		return 0;
	}
	record = json_loadb(line, len, 0, &why);
	if (json_is_object(record))
		e = read_record(r, record, err);
	else
		note(r, whole ? "damaged, no JSON object" : "cut off in the middle");
	json_decref(record);
	return e;
}

int runs_parse(
	struct runs *ret, const char *text, size_t len, const char *path, struct mlr_error *err)
{
	struct reader r = { .to = ret, .path = path, .before = ret->n };
	const char *end = text + len;
	int e;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		e = read_line(&r, text, (size_t)(stop - text), newline != NULL, err);
		if (e < 0)
			return e;
		text = stop + 1;
	}
	if (r.damaged > NOTES_MAX) {
		auto_free char *more =
			xasprintf("'%s': %zu lines more are damaged", path, r.damaged - NOTES_MAX);

		*xadd(ret->notes, ret->n_notes) = copy_text(more);
	}
	if (ret->n > r.before)
		return 0;
	mlr_fail(err, EPROTO, "'%s' has no record of a run", path);
	return mlr_hint(err, "a log is what `mltrain train --log FILE` writes");
}
