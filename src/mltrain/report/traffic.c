#include "report/traffic.h"

#include "report/html.h"

#include <jansson.h>
#include <math.h>

#define TEXT_MAX 400 /* bytes of a text that is shown */

const char *const traffic_latencies[TRAFFIC_LATENCIES] = { "min", "avg", "med", "p90", "p95", "p99",
	"p99.9", "max" };

static const char *const numbers[TRAFFIC_NUMBERS] = { "requests", "requests_per_second", "failed",
	"seconds", "sent", "received", "known", "unique", "not_sent", "unfinished", "users_max",
	"connections", "cpu_us_per_request", "cpu_share" };

/* The key of each curve's values in a row. */
static const char *const curves[] = { [TRAFFIC_CURVE_MED] = "med",
	[TRAFFIC_CURVE_P99] = "p99",
	[TRAFFIC_CURVE_RATE] = "requests",
	[TRAFFIC_CURVE_FAILED] = "failed",
	[TRAFFIC_CURVE_USERS] = "users" };

static void run_done(struct traffic_run *r)
{
	free(r->name);
	free(r->where);
	free(r->url);
	free(r->load);
	free(r->host);
	for (int i = 0; i < TRAFFIC_CURVES; i++) {
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

static char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return html_cut(s ? s : "", TEXT_MAX);
}

static void add_point(struct traffic_points *p, double x, double y)
{
	if (isnan(x) || isnan(y) || p->n >= TRAFFIC_POINTS_MAX || (p->n && x < p->x[p->n - 1]))
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

			if (c == TRAFFIC_CURVE_RATE)
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
			add_point(&r->curves[TRAFFIC_CURVE_PERCENTILES], 100 / (100 - p), ms);
	}
}

static void add_verdict(struct traffic_run *r, char *what, char *shown, int good)
{
	if (r->n_verdicts == TRAFFIC_VERDICTS_MAX) {
		free(what);
		free(shown);
		return;
	}
	r->verdicts = xgrow(r->verdicts, r->n_verdicts, sizeof(*r->verdicts));
	r->verdicts[r->n_verdicts++] = (struct traffic_verdict){ what, shown, good };
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
	const json_t *latency = json_object_get(o, "latency_ms");
	struct traffic_run *r;

	if (t->n == TRAFFIC_MAX)
		return mlr_fail(
			err, E2BIG, "'%s': more than %d runs for one page", path, TRAFFIC_MAX);
	t->v = xgrow(t->v, t->n, sizeof(*t->v));
	r = &t->v[t->n++];
	*r = (struct traffic_run){ text(o, "name"), text(o, "url"), text(o, "load"),
		text(o, "host") };
	r->where = line > 1 ? xasprintf("%s:%zu", path, line) : xstrdup(path);
	for (int i = 0; i < TRAFFIC_NUMBERS; i++)
		r->numbers[i] = number(o, numbers[i]);
	for (int i = 0; i < TRAFFIC_LATENCIES; i++)
		r->latencies[i] = number(latency, traffic_latencies[i]);
	r->interrupted = json_is_true(json_object_get(o, "interrupted"));
	read_rows(r, json_object_get(o, "rows"));
	read_percentiles(r, json_object_get(o, "percentiles_ms"));
	read_verdicts(r, o);
	return 0;
}

int traffic_is(const char *bytes, size_t len)
{
	static const char start[] = "{\"event\":\"load_test\"";

	return len >= sizeof(start) - 1 && memcmp(bytes, start, sizeof(start) - 1) == 0;
}

int traffic_parse(
	struct traffic *ret, const char *bytes, size_t len, const char *path, struct mlr_error *err)
{
	const char *end = bytes + len;
	size_t line = 0;
	int r = 0;

	while (bytes < end && r == 0) {
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
		size_t n = (size_t)((newline ? newline : end) - bytes);
		json_auto_t *o = NULL;
		const char *event;

		line++;
		o = n ? json_loadb(bytes, n, 0, NULL) : NULL;
		event = json_string_value(json_object_get(o, "event"));
		if (n && (!event || strcmp(event, "load_test") != 0))
			r = mlr_fail(err, EPROTO,
				"'%s' line %zu is not what `mltrain load --json` writes", path,
				line);
		else if (n)
			r = read_run(ret, o, path, line, err);
		bytes += n + 1;
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
