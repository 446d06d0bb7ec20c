/*
 * The results of `mltrain load`, from the JSON that it writes (mltrain-load(1), "JSON"): untrusted,
 * one object a line. Unknown keys are ignored, missing and odd numbers are NAN. And their page:
 * numbers side by side, curves, checks.
 */
#include "report/report.h"

#include "report/html.h"

#include <math.h>

#define TEXT_MAX     400               /* bytes of a text that is shown */
#define POINTS_MAX   ((size_t)1 << 20) /* of a curve */
#define VERDICTS_MAX 64

static char *bytes(double v, char buf[HTML_NUMBER])
{
	if (isnan(v))
		return strcpy(buf, "–");
	snprintf(buf, HTML_NUMBER, v < 1e6 ? "%.1f kB" : "%.1f MB", v < 1e6 ? v / 1e3 : v / 1e6);
	return buf;
}

static char *micro(double v, char buf[HTML_NUMBER])
{
	if (isnan(v))
		return strcpy(buf, "–");
	snprintf(buf, HTML_NUMBER, "%.1f µs", v);
	return buf;
}

/* A number of a run: a row of the page, and its key in the run's JSON. */
struct number {
	const char *name, *key;
	html_number *shown;
	int compared;      /* with the first run */
	const char *of[2]; /* keys: a share of their sum is shown */
};

static const struct number requests[] = {
	{ "requests a second", "requests_per_second", html_count, 1 },
	{ "requests", "requests", html_count },
	{ "failed", "failed", html_share, 0, { "requests" } },
	{ "never sent", "not_sent", html_count },
	{ "known bodies", "known", html_share, 0, { "known", "unique" } },
	{ "most users, or requests on their way", "users_max", html_count },
	{ "connections", "connections", html_count },
	{ "sent", "sent", bytes },
	{ "received", "received", bytes },
	{ "time", "seconds", html_duration },
	{ "generator, processor time a request", "cpu_us_per_request", micro },
	{ "generator, share of a processor", "cpu_share", html_share },
};

static const struct number latencies[] = {
	{ "min", "min", html_latency, 1 },
	{ "avg", "avg", html_latency, 1 },
	{ "med", "med", html_latency, 1 },
	{ "p90", "p90", html_latency, 1 },
	{ "p95", "p95", html_latency, 1 },
	{ "p99", "p99", html_latency, 1 },
	{ "p99.9", "p99.9", html_latency, 1 },
	{ "max", "max", html_latency, 1 },
};

#define NUMBERS_MAX 12

/* Values over the seconds of the run. */
enum traffic_curve {
	CURVE_MED,
	CURVE_P99,
	CURVE_RATE, /* requests a second */
	CURVE_FAILED,
	CURVE_USERS,
	CURVE_PERCENTILES, /* ms over how many requests one is slower of */
	CURVES,
};

/* The key of each curve's values in a row. */
static const char *const curves[] = { [CURVE_MED] = "med",
	[CURVE_P99] = "p99",
	[CURVE_RATE] = "requests",
	[CURVE_FAILED] = "failed",
	[CURVE_USERS] = "users" };

struct points {
	double *x, *y; /* [n], owned, finite, x not falling */
	size_t n;
};

/* A check or a threshold. */
struct verdict {
	char *text, *shown; /* owned; shown: what was seen */
	int good;
};

struct traffic_run {
	char *name, *url, *load, *host; /* owned, never NULL */
	char *where;                    /* the file, and behind a colon its line from 2 on; owned */
	double requests[NUMBERS_MAX], latencies[NUMBERS_MAX]; /* of the tables above */
	int interrupted, any_failed;
	struct points curves[CURVES];
	struct verdict *verdicts; /* [n_verdicts], owned */
	size_t n_verdicts;
};

_Static_assert(ARRAY_LEN(requests) <= NUMBERS_MAX && ARRAY_LEN(latencies) <= NUMBERS_MAX,
	"a number for each row");

static void run_done(struct traffic_run *r)
{
	free(r->name);
	free(r->where);
	free(r->url);
	free(r->load);
	free(r->host);
	for (int i = 0; i < CURVES; i++) {
		free(r->curves[i].x);
		free(r->curves[i].y);
	}
	for (size_t i = 0; i < r->n_verdicts; i++) {
		free(r->verdicts[i].text);
		free(r->verdicts[i].shown);
	}
	free(r->verdicts);
}

void traffic_done(struct traffic *t)
{
	for (size_t i = 0; i < t->n; i++)
		run_done(&t->v[i]);
	free(t->v);
	*t = (struct traffic){ 0 };
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	double d = json_number_value(v);

	return json_is_number(v) && d >= 0 && d <= 1e18 ? d : NAN;
}

/* Compute a share of the sum of one or two others. */
static double share(const json_t *o, const struct number *n)
{
	double of = number(o, n->of[0]) + (n->of[1] ? number(o, n->of[1]) : 0);

	return of > 0 ? number(o, n->key) / of : NAN;
}

static void read_numbers(
	const json_t *o, const struct number *numbers, size_t n, double ret[NUMBERS_MAX])
{
	for (size_t i = 0; i < n; i++)
		ret[i] = numbers[i].of[0] ? share(o, &numbers[i]) : number(o, numbers[i].key);
}

static char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return html_cut(s ? s : "", TEXT_MAX);
}

static void add_point(struct points *p, double x, double y)
{
	if (isnan(x) || isnan(y) || p->n >= POINTS_MAX || (p->n && x < p->x[p->n - 1]))
		return;
	p->x = xgrow(p->x, p->n, sizeof(double));
	p->y = xgrow(p->y, p->n, sizeof(double));
	p->x[p->n] = x;
	p->y[p->n++] = y;
}

static void read_rows(struct traffic_run *r, const json_t *rows)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row) {
		double seconds = number(row, "seconds"), x = number(row, "time");

		for (size_t c = 0; c < ARRAY_LEN(curves); c++) {
			double y = number(row, curves[c]);

			if (c == CURVE_RATE)
				y = seconds > 0 ? y / seconds : NAN;
			add_point(&r->curves[c], x, y);
		}
	}
}

/* Over 1, 10, 100, … requests of which one is slower, which spreads the end that matters. */
static void read_percentiles(struct traffic_run *r, const json_t *pairs)
{
	size_t i;
	json_t *pair;

	json_array_foreach(pairs, i, pair) {
		double p = json_number_value(json_array_get(pair, 0));
		double ms = json_number_value(json_array_get(pair, 1));

		if (json_array_size(pair) == 2 && p >= 0 && p < 100 && ms >= 0 && ms <= 1e18)
			add_point(&r->curves[CURVE_PERCENTILES], 100 / (100 - p), ms);
	}
}

static void add_verdict(struct traffic_run *r, char *what, char *shown, int good)
{
	if (r->n_verdicts == VERDICTS_MAX) {
		free(what);
		free(shown);
		return;
	}
	*xadd(r->verdicts, r->n_verdicts) = (struct verdict){ what, shown, good };
}

static void read_verdicts(struct traffic_run *r, const json_t *o)
{
	size_t i;
	json_t *v;

	json_array_foreach(json_object_get(o, "checks"), i, v) {
		double passed = number(v, "passed"), failed = number(v, "failed");

		add_verdict(r, text(v, "check"),
			passed + failed > 0 ? xasprintf("%.2f %%", 100 * passed / (passed + failed))
					    : xstrdup("nothing"),
			failed <= 0);
	}
	json_array_foreach(json_object_get(o, "thresholds"), i, v)
		add_verdict(r, text(v, "threshold"), text(v, "shown"),
			json_is_true(json_object_get(v, "kept")));
}

static int read_run(
	struct traffic *t, const json_t *o, const char *path, size_t line, struct mlr_error *err)
{
	struct traffic_run *r;

	if (t->n == TRAFFIC_MAX)
		return mlr_fail(
			err, E2BIG, "'%s': more than %d runs for one page", path, TRAFFIC_MAX);
	r = xadd(t->v, t->n);
	*r = (struct traffic_run){ text(o, "name"), text(o, "url"), text(o, "load"),
		text(o, "host") };
	r->where = line > 1 ? xasprintf("%s:%zu", path, line) : xstrdup(path);
	read_numbers(o, requests, ARRAY_LEN(requests), r->requests);
	read_numbers(
		json_object_get(o, "latency_ms"), latencies, ARRAY_LEN(latencies), r->latencies);
	r->any_failed = number(o, "failed") > 0;
	r->interrupted = json_is_true(json_object_get(o, "interrupted"));
	read_rows(r, json_object_get(o, "rows"));
	read_percentiles(r, json_object_get(o, "percentiles_ms"));
	read_verdicts(r, o);
	return 0;
}

int traffic_is(const char *text, size_t len)
{
	static const char start[] = "{\"event\":\"load_test\"";

	return len >= sizeof(start) - 1 && memcmp(text, start, sizeof(start) - 1) == 0;
}

int traffic_parse(
	struct traffic *ret, const char *text, size_t len, const char *path, struct mlr_error *err)
{
	const char *end = text + len;
	size_t line = 0;
	int r = 0;

	while (text < end && r == 0) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((newline ? newline : end) - text);
		json_auto_t *o = NULL;
		const char *event;

		line++;
		o = n ? json_loadb(text, n, 0, NULL) : NULL;
		event = json_string_value(json_object_get(o, "event"));
		if (n && (!event || strcmp(event, "load_test") != 0))
			r = mlr_fail(err, EPROTO,
				"'%s' line %zu is not what `mltrain load --json` writes", path,
				line);
		else if (n)
			r = read_run(ret, o, path, line, err);
		text += n + 1;
	}
	return r;
}

void traffic_tell_apart(struct traffic *t)
{
	auto_free int *shared = xcalloc(t->n + 1, sizeof(*shared));

	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(t->v[i].name, t->v[k].name) == 0)
				shared[i] = shared[k] = 1;
	for (size_t i = 0; i < t->n; i++)
		if (shared[i]) {
			char *name = xasprintf("%s (%s)", t->v[i].name, t->v[i].where);

			free(t->v[i].name);
			t->v[i].name = name;
		}
}

/* --- the page: numbers ------------------------------------------------------------------ */

static void write_head(FILE *f, const struct traffic *t)
{
	fputs("<thead><tr><th scope=\"col\"></th>", f);
	for (size_t i = 0; i < t->n; i++)
		html_column(f, i, t->v[i].name);
	fputs("</tr></thead>\n<tbody>\n", f);
}

static void end_table(FILE *f)
{
	fputs("</tbody></table></div></section>\n", f);
}

/* Write the numbers [n] that lie at this offset in each run. */
static void write_numbers(
	FILE *f, const struct traffic *t, const struct number *numbers, size_t n, size_t offset)
{
	write_head(f, t);
	for (size_t k = 0; k < n; k++) {
		double v[TRAFFIC_MAX];

		for (size_t i = 0; i < t->n; i++)
			v[i] = ((const double *)((const char *)&t->v[i] + offset))[k];
		html_row(f, numbers[k].name, numbers[k].shown, v, t->n,
			numbers[k].compared ? 0 : t->n);
	}
	end_table(f);
}

static void write_verdicts(FILE *f, const struct traffic *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->v[i].n_verdicts;
	if (!n)
		return;
	html_table_begin(f, "verdicts", "Checks and thresholds", "verdicts");
	fputs("<thead><tr><th scope=\"col\">run</th><th scope=\"col\">what must be true</th>"
	      "<th scope=\"col\">seen</th><th scope=\"col\">result</th></tr></thead>\n<tbody>\n",
		f);
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->v[i].n_verdicts; k++) {
			const struct verdict *v = &t->v[i].verdicts[k];

			fprintf(f, "<tr><th scope=\"row\"><span class=\"dot c%zu\"></span>", i % 8);
			html_format(f,
				"%s</th><td>%s</td><td class=\"num\">%s</td><td>"
				"<span class=\"outcome %s\">%s</span></td></tr>\n",
				t->v[i].name, v->text, v->shown, v->good ? "ended" : "odd",
				v->good ? "kept" : "broken");
		}
	end_table(f);
}

/* --- the page: curves
 * ----------------------------------------------------------------------------- */

static int any_failed(const struct traffic *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].any_failed)
			return 1;
	return 0;
}

static void write_curve(FILE *f, const struct traffic *t, enum traffic_curve curve, struct chart c)
{
	c.x_name = c.x_name ? c.x_name : "seconds";
	c.from_zero = 1;
	for (int two = curve == CURVE_MED, k = 0; k <= two; k++)
		for (size_t i = 0; i < t->n; i++) {
			const struct points *p = &t->v[i].curves[k ? CURVE_P99 : curve];

			chart_add(&c,
				&(struct line){ t->v[i].name,
					!two        ? NULL
						: k ? "p99"
						    : "median",
					(int)i, k ? LINE_FAINT : LINE_STRONG, p->x, p->y, p->n });
		}
	chart_write(f, &c);
}

static void write_curves(FILE *f, const struct traffic *t)
{
	int alone = t->n == 1;

	fputs("<section aria-labelledby=\"h-curves\"><h2 id=\"h-curves\">Curves</h2>\n"
	      "<p class=\"about hint\">Drag across a stretch to zoom into it; a double click shows all "
	      "again.</p>\n<div class=\"charts\">\n",
		f);
	write_curve(f, t, CURVE_MED,
		(struct chart){ .id = "times",
			.title = "Latency over time",
			.about = "In each second, half and one of a hundred requests took longer.",
			.unit = "ms",
			.log_choice = 1 });
	write_curve(f, t, CURVE_PERCENTILES,
		(struct chart){ .id = "percentiles",
			.title = "Latency by percentile",
			.about = "One of so many requests took longer: 100 is the 99th percentile.",
			.x_name = "one of",
			.unit = "ms",
			.log_choice = 1,
			.x_log = 1,
			.alone = alone });
	write_curve(f, t, CURVE_RATE,
		(struct chart){ .id = "rate",
			.title = "Requests a second",
			.unit = "requests/s",
			.log_choice = !alone,
			.alone = alone });
	write_curve(f, t, CURVE_USERS,
		(struct chart){ .id = "users",
			.title = "Users, or requests on their way",
			.alone = alone });
	if (any_failed(t))
		write_curve(f, t, CURVE_FAILED,
			(struct chart){ .id = "failed",
				.title = "Failed requests in each second",
				.alone = alone });
	fputs("</div></section>\n", f);
}

/* Describe the runs, a line each. */
static void write_header(FILE *f, const struct traffic *t, const char *title)
{
	html_format(f, "<header><h1>%s</h1>\n", title);
	for (size_t i = 0; i < t->n; i++) {
		const struct traffic_run *r = &t->v[i];

		fprintf(f, "<p class=\"machine\"><span class=\"dot c%zu\"></span>", i % 8);
		html_format(f, "%s: <span>%s</span> · <span>%s</span> · <span>%s</span>%s</p>\n",
			r->name, r->url, r->load, r->host, r->interrupted ? " · interrupted" : "");
	}
	fputs("</header>\n<main>\n", f);
}

void traffic_write(FILE *f, const struct traffic *t)
{
	auto_free char *title = t->n == 1 ? xasprintf("Load on %s", t->v[0].url)
					  : xasprintf("Load: %zu runs", t->n);

	html_page_begin(f, title);
	write_header(f, t, title);
	html_table_begin(f, "latency", "Latency", "latency");
	write_numbers(
		f, t, latencies, ARRAY_LEN(latencies), offsetof(struct traffic_run, latencies));
	html_table_begin(f, "requests", "Requests", "requests");
	write_numbers(f, t, requests, ARRAY_LEN(requests), offsetof(struct traffic_run, requests));
	write_curves(f, t);
	write_verdicts(f, t);
	html_page_end(f);
}
