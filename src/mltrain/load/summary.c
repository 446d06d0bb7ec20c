#include "load/load.h"

#include "base/escape.h"
#include "base/json.h"
#include "config.h"
#include "report/html.h"

#include <math.h>

#define BUSY 0.9 /* of a processor: more, and the generator may be what is measured */

/* Percentiles of latencies, as they are called. */
static const struct {
	const char *name;
	double p;
} columns[] = { { "med", 50 }, { "p90", 90 }, { "p95", 95 }, { "p99", 99 }, { "p99.9", 99.9 } };

static char *size(double bytes, char buf[24])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	size_t i = 0;

	for (; bytes >= 999.5 && i + 1 < ARRAY_LEN(units); i++)
		bytes /= 1000;
	snprintf(buf, 24, i && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[i]);
	return buf;
}

/* Compute a share in per cent, 0 of nothing. */
static double percent(uint64_t part, uint64_t of)
{
	return of ? 100 * (double)part / (double)of : 0;
}

/* Make "20 virtual users", "stages 30s:20,30s:0", "2000 requests a second"; to free(). */
static char *loop_text(const struct load_options *o)
{
	const struct stages *s = &o->stages;
	char *text = NULL;
	size_t len;
	FILE *f;

	if (!s->n)
		return xasprintf("%g requests a second for %g s", o->rate, o->seconds);
	if (s->n == 2 && s->v[0].seconds <= 0 && s->v[0].users == s->v[1].users)
		return xasprintf("%u virtual user%s for %g s", s->v[1].users,
			s->v[1].users == 1 ? "" : "s", s->v[1].seconds);
	f = open_memstream(&text, &len);
	if (!f)
		mlr_oom();
	for (size_t i = 0; i < s->n; i++)
		fprintf(f, "%s%gs:%u", i ? "," : "stages ", s->v[i].seconds, s->v[i].users);
	fclose(f);
	return text;
}

static void write_failures(FILE *f, const struct results *r)
{
	const char *between = "  ";

	fprintf(f, "  failed        %" PRIu64 "  %.2f %%", r->failed,
		percent(r->failed, r->requests));
	for (int k = 0; k < RESULTS_KINDS; k++) {
		if (!r->kinds[k])
			continue;
		fprintf(f, "%s%s %" PRIu64, between, results_kinds[k], r->kinds[k]);
		if (r->examples[k]) {
			fputs(" (", f);
			escape_print(f, r->examples[k]);
			fputs(")", f);
		}
		between = ", ";
	}
	fputs("\n", f);
}

static void write_statuses(FILE *f, const struct results *r)
{
	const char *between = "  statuses      ";

	for (int i = 0; i < RESULTS_STATUS_MAX; i++)
		if (r->statuses[i]) {
			fprintf(f, "%s%d: %" PRIu64, between, i, r->statuses[i]);
			between = ", ";
		}
	if (*between == ',')
		fputs("\n", f);
}

static void write_latency(FILE *f, const struct results *r)
{
	char a[HTML_NUMBER], b[HTML_NUMBER];

	if (!r->all->count)
		return;
	fprintf(f, "  latency       min %s  avg %s", html_latency((double)r->all->least / 1e3, a),
		html_latency(histogram_mean(r->all) / 1e3, b));
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		fprintf(f, "  %s %s", columns[i].name,
			html_latency((double)histogram_percentile(r->all, columns[i].p) / 1e3, a));
	fprintf(f, "  max %s\n", html_latency((double)r->all->most / 1e3, a));
}

static void write_data(FILE *f, const struct results *r)
{
	char a[HTML_NUMBER], b[HTML_NUMBER];
	double s = r->seconds > 0 ? r->seconds : 1;

	fprintf(f, "  data sent     %s  %s/s\n", size((double)r->sent, a),
		size((double)r->sent / s, b));
	fprintf(f, "  received      %s  %s/s\n", size((double)r->received, a),
		size((double)r->received / s, b));
	if (r->unique)
		fprintf(f, "  bodies        %.1f %% known, %.1f %% unique\n",
			percent(r->repeated, r->repeated + r->unique),
			percent(r->unique, r->repeated + r->unique));
	if (r->connections)
		fprintf(f, "  connections   %" PRIu64 ", each made in %s\n", r->connections,
			html_latency(1e3 * r->connect_seconds / (double)r->connections, a));
	if (r->requests)
		fprintf(f,
			"  generator     %.1f us of processor time a request, %.0f %% of a processor\n",
			1e6 * r->cpu_seconds / (double)r->requests, 100 * results_busy(r));
}

static void write_verdicts(FILE *f, const struct summary *s)
{
	char buf[48];

	for (size_t i = 0; i < s->o->n_checks; i++) {
		const struct check *c = &s->o->checks[i];

		fputs("  check         ", f);
		escape_print(f, c->text);
		fprintf(f, "  %.2f %%: %" PRIu64 " passed, %" PRIu64 " failed\n",
			percent(c->passed, c->passed + c->failed), c->passed, c->failed);
	}
	for (size_t i = 0; i < s->n_thresholds; i++) {
		const struct threshold *t = &s->thresholds[i];

		fputs("  threshold     ", f);
		escape_print(f, t->text);
		fprintf(f, "  %s: %s\n", threshold_kept(t, s->results) ? "kept" : "broken",
			threshold_shown(t, threshold_seen(t, s->results), buf));
	}
}

/* Name the reasons to doubt the numbers. */
static void write_doubts(FILE *f, const struct summary *s)
{
	const struct results *r = s->results;

	if (s->interrupted)
		fprintf(f, "  note          the run was interrupted after %.1f s\n", r->seconds);
	if (r->unfinished)
		fprintf(f, "  note          %" PRIu64 " requests had no answer yet when it ended\n",
			r->unfinished);
	if (r->not_sent)
		fprintf(f,
			"  note          %" PRIu64
			" requests were due but not sent: all %u connections were busy (--max-connections)\n",
			r->not_sent, s->o->connections_max);
	if (results_busy(r) > BUSY)
		fprintf(f,
			"  note          this generator was busy all the time: the server may be capable of more\n");
}

void summary_write(FILE *f, const struct summary *s)
{
	const struct results *r = s->results;
	auto_free char *loop = loop_text(s->o);

	escape_print(f, s->url);
	fprintf(f, ": %s\n", loop);
	fprintf(f, "  requests      %" PRIu64 "  %.1f/s\n", r->requests, results_rate(r));
	write_failures(f, r);
	write_statuses(f, r);
	write_latency(f, r);
	write_data(f, r);
	write_verdicts(f, s);
	write_doubts(f, s);
}

void summary_line(
	char *buf, size_t room, const struct load_options *o, const struct results_row *row)
{
	double all = load_seconds(o),
	       rate = row->seconds > 0 ? (double)row->requests / row->seconds : 0;
	char a[HTML_NUMBER], b[HTML_NUMBER];

	snprintf(buf, room,
		"%.0f of %g s  %u %s  %.0f requests/s  med %s  p99 %s  %" PRIu64 " failed",
		fmin(row->time, all), all, row->users, o->stages.n ? "users" : "on their way", rate,
		html_latency((double)row->p50 / 1e3, a), html_latency((double)row->p99 / 1e3, b),
		row->failed);
}

/* --- as JSON ---------------------------------------------------------------------------- */

static json_t *whole(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* Milliseconds of µs; null of an empty histogram. */
static json_t *ms(const struct histogram *h, double us)
{
	return h->count ? json_real(us / 1000) : json_null();
}

static json_t *latency(const struct histogram *h)
{
	json_t *o = json_object();

	json_object_set_new(o, "min", ms(h, (double)h->least));
	json_object_set_new(o, "avg", ms(h, histogram_mean(h)));
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		json_object_set_new(
			o, columns[i].name, ms(h, (double)histogram_percentile(h, columns[i].p)));
	json_object_set_new(o, "max", ms(h, (double)h->most));
	return o;
}

/* List [percentile, milliseconds] from 0 to one beyond which no request lies, finer towards the
 * end: each halving of the rest is five steps, as HdrHistogram prints them. */
static json_t *percentiles(const struct histogram *h)
{
	json_t *all = json_array();

	for (int i = 0; h->count; i++) {
		double left = pow(0.5, i / 5.0), p = 100 * (1 - left);

		json_array_append_new(
			all, json_pack("[f, f]", p, (double)histogram_percentile(h, p) / 1000));
		if (left * (double)h->count < 1)
			break;
	}
	return all;
}

static json_t *failures(const struct results *r)
{
	json_t *o = json_object();

	for (int k = 0; k < RESULTS_KINDS; k++)
		json_object_set_new(o, results_kinds[k], whole(r->kinds[k]));
	return o;
}

static json_t *statuses(const struct results *r)
{
	json_t *o = json_object();
	char key[12];

	for (int i = 0; i < RESULTS_STATUS_MAX; i++)
		if (r->statuses[i]) {
			snprintf(key, sizeof(key), "%d", i);
			json_object_set_new(o, key, whole(r->statuses[i]));
		}
	return o;
}

/* Milliseconds of a row's µs; null of a row without answers. */
static json_t *row_ms(const struct results_row *w, uint64_t us)
{
	return w->most ? mlr_json_real((double)us / 1000) : json_null();
}

static json_t *row(const struct results_row *w)
{
	return json_pack("{s:f, s:f, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "time", w->time,
		"seconds", w->seconds, "users", (int)w->users, "requests", whole(w->requests),
		"failed", whole(w->failed), "sent", whole(w->sent), "received", whole(w->received),
		"med", row_ms(w, w->p50), "p95", row_ms(w, w->p95), "p99", row_ms(w, w->p99), "max",
		row_ms(w, w->most));
}

static json_t *check(const struct check *c)
{
	return json_pack("{s:o, s:o, s:o}", "check", mlr_json_text(c->text), "passed",
		whole(c->passed), "failed", whole(c->failed));
}

static json_t *threshold(const struct threshold *t, const struct results *r)
{
	double seen = threshold_seen(t, r);
	char shown[48];

	return json_pack("{s:o, s:b, s:o, s:s}", "threshold", mlr_json_text(t->text), "kept",
		threshold_kept(t, r), "value", mlr_json_real(seen), "shown",
		threshold_shown(t, seen, shown));
}

static json_t *run(const struct summary *s)
{
	auto_free char *loop = loop_text(s->o);
	char host[256] = "";
	int is_closed = s->o->stages.n > 0;

	gethostname(host, sizeof(host) - 1);
	return json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, "
			 "s:o, s:b}",
		"event", "load_test", "version", PACKAGE_VERSION, "name", mlr_json_text(s->name),
		"url", mlr_json_text(s->url), "method", requests_method(s->o->requests), "loop",
		is_closed ? "closed" : "open", "load", mlr_json_text(loop), "rate",
		is_closed ? json_null() : mlr_json_real(s->o->rate), "think",
		mlr_json_real(s->o->think_s), "timeout", mlr_json_real(s->o->timeout_s),
		"keep_alive", !s->o->close, "cache_rate", mlr_json_real(s->cache_rate), "images",
		mlr_json_text(s->images), "host", mlr_json_text(host), "began",
		mlr_json_real(s->began), "interrupted", s->interrupted);
}

/* Compute v for each of n; null without any. */
static json_t *each(double v, uint64_t n)
{
	return n ? mlr_json_real(v / (double)n) : json_null();
}

static json_t *measured(const struct summary *s)
{
	const struct results *r = s->results;

	return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
			 "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"seconds", mlr_json_real(r->seconds), "users_max", (int)r->users_most, "requests",
		whole(r->requests), "requests_per_second", mlr_json_real(results_rate(r)), "failed",
		whole(r->failed), "failures", failures(r), "statuses", statuses(r), "not_sent",
		whole(r->not_sent), "unfinished", whole(r->unfinished), "sent", whole(r->sent),
		"received", whole(r->received), "known", whole(r->repeated), "unique",
		whole(r->unique), "connections", whole(r->connections), "connect_ms",
		each(1e3 * r->connect_seconds, r->connections), "cpu_us_per_request",
		each(1e6 * r->cpu_seconds, r->requests), "cpu_share",
		mlr_json_real(results_busy(r)), "latency_ms", latency(r->all), "percentiles_ms",
		percentiles(r->all), "checks",
		MLR_JSON_LIST(i, s->o->n_checks, check(&s->o->checks[i])), "thresholds",
		MLR_JSON_LIST(i, s->n_thresholds, threshold(&s->thresholds[i], r)), "rows",
		MLR_JSON_LIST(i, r->n_rows, row(&r->rows[i])));
}

char *summary_json(const struct summary *s, size_t *len)
{
	json_auto_t *o = run(s), *results = measured(s);
	auto_free char *text = NULL;
	char *line;

	if (!o || !results || json_object_update(o, results) < 0)
		mlr_oom();
	text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
	if (!text)
		mlr_oom();
	line = xasprintf("%s\n", text);
	*len = strlen(line);
	return line;
}
