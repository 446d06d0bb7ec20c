#include "load/record.h"

#include "base/base.h"
#include "base/json.h"
#include "config.h"

#include <jansson.h>
#include <math.h>

static json_t *whole(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

/* Milliseconds of µs; null of an empty histogram. */
static json_t *ms(const struct histogram *h, double us)
{
	return h->count ? json_real(us / 1000) : json_null();
}

static json_t *latency(const struct histogram *h)
{
	static const struct {
		const char *key;
		double p;
	} percentiles[] = { { "med", 50 }, { "p90", 90 }, { "p95", 95 }, { "p99", 99 },
		{ "p99.9", 99.9 } };
	json_t *o = json_object();

	json_object_set_new(o, "min", ms(h, (double)h->least));
	json_object_set_new(o, "avg", ms(h, histogram_mean(h)));
	for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
		json_object_set_new(o, percentiles[i].key,
			ms(h, (double)histogram_percentile(h, percentiles[i].p)));
	json_object_set_new(o, "max", ms(h, (double)h->most));
	return o;
}

/* [percentile, milliseconds] from 0 to one beyond which no request lies, finer towards the end:
 * each halving of what is left is five steps, as HdrHistogram prints them. */
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
		json_object_set_new(o, results_kind_name((enum results_kind)k), whole(r->kinds[k]));
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

static json_t *rows(const struct results *r)
{
	json_t *all = json_array();

	for (size_t i = 0; i < r->n_rows; i++) {
		const struct results_row *w = &r->rows[i];
		int none = !w->most;

		json_array_append_new(all,
			json_pack("{s:f, s:f, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "time",
				w->time, "seconds", w->seconds, "users", (int)w->users, "requests",
				whole(w->requests), "failed", whole(w->failed), "sent",
				whole(w->sent), "received", whole(w->received), "med",
				none ? json_null() : real((double)w->p50 / 1000), "p95",
				none ? json_null() : real((double)w->p95 / 1000), "p99",
				none ? json_null() : real((double)w->p99 / 1000), "max",
				none ? json_null() : real((double)w->most / 1000)));
	}
	return all;
}

static json_t *checks(const struct summary *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->o->n_checks; i++) {
		const struct check *c = &s->o->checks[i];

		json_array_append_new(all,
			json_pack("{s:o, s:o, s:o}", "check", mlr_json_text(c->text), "passed",
				whole(c->passed), "failed", whole(c->failed)));
	}
	return all;
}

static json_t *thresholds(const struct summary *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->n_thresholds; i++) {
		const struct threshold *t = &s->thresholds[i];
		double seen = threshold_seen(t, s->results);
		char shown[48];

		json_array_append_new(all,
			json_pack("{s:o, s:b, s:o, s:s}", "threshold", mlr_json_text(t->text),
				"kept", threshold_kept(t, s->results), "value", real(seen), "shown",
				threshold_shown(t, seen, shown)));
	}
	return all;
}

static void set_run(json_t *o, const struct summary *s)
{
	auto_free char *loop = summary_loop(s->o);
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_object_set_new(o, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(o, "name", mlr_json_text(s->name));
	json_object_set_new(o, "url", mlr_json_text(s->url));
	json_object_set_new(o, "method", json_string(requests_method(s->o->requests)));
	json_object_set_new(o, "loop", json_string(s->o->stages.n ? "closed" : "open"));
	json_object_set_new(o, "load", mlr_json_text(loop));
	json_object_set_new(o, "rate", s->o->stages.n ? json_null() : real(s->o->rate));
	json_object_set_new(o, "think", real(s->o->think_s));
	json_object_set_new(o, "timeout", real(s->o->timeout_s));
	json_object_set_new(o, "keep_alive", json_boolean(!s->o->close));
	json_object_set_new(o, "cache_rate", real(s->cache_rate));
	json_object_set_new(o, "images", mlr_json_text(s->images));
	json_object_set_new(o, "host", mlr_json_text(host));
	json_object_set_new(o, "began", real(s->began));
	json_object_set_new(o, "interrupted", json_boolean(s->interrupted));
}

static void set_results(json_t *o, const struct summary *s)
{
	const struct results *r = s->results;

	json_object_set_new(o, "seconds", real(r->seconds));
	json_object_set_new(o, "users_max", json_integer(r->users_most));
	json_object_set_new(o, "requests", whole(r->requests));
	json_object_set_new(o, "requests_per_second", real(results_rate(r)));
	json_object_set_new(o, "failed", whole(r->failed));
	json_object_set_new(o, "failures", failures(r));
	json_object_set_new(o, "statuses", statuses(r));
	json_object_set_new(o, "not_sent", whole(r->not_sent));
	json_object_set_new(o, "unfinished", whole(r->unfinished));
	json_object_set_new(o, "sent", whole(r->sent));
	json_object_set_new(o, "received", whole(r->received));
	json_object_set_new(o, "known", whole(r->repeated));
	json_object_set_new(o, "unique", whole(r->unique));
	json_object_set_new(o, "connections", whole(r->connections));
	json_object_set_new(o, "connect_ms",
		r->connections ? real(1e3 * r->connect_seconds / (double)r->connections)
			       : json_null());
	json_object_set_new(o, "cpu_us_per_request",
		r->requests ? real(1e6 * r->cpu_seconds / (double)r->requests) : json_null());
	json_object_set_new(o, "cpu_share", real(results_busy(r)));
	json_object_set_new(o, "latency_ms", latency(r->all));
	json_object_set_new(o, "percentiles_ms", percentiles(r->all));
	json_object_set_new(o, "checks", checks(s));
	json_object_set_new(o, "thresholds", thresholds(s));
	json_object_set_new(o, "rows", rows(r));
}

char *record_make(const struct summary *s, size_t *len)
{
	json_auto_t *o = json_pack("{s:s}", "event", "load_test");
	char *text, *line;

	if (!o)
		mlr_oom();
	set_run(o, s);
	set_results(o, s);
	text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
	if (!text)
		mlr_oom();
	line = xasprintf("%s\n", text);
	free(text);
	*len = strlen(line);
	return line;
}
