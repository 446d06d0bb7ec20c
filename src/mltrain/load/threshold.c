/*
 * Bounds that a run must keep, in k6's grammar of thresholds: [METRIC:]AGGREGATE OP VALUE
 *
 *   p(99)<2000ms              http_req_duration, if no metric is named: avg min med max p(N); in
 *                             milliseconds, or with a unit of us, ms, s, m
 *   http_req_failed:rate<1%   a share: 0.01 or 1%
 *   http_reqs:rate>1000       requests a second; count: requests
 *   checks:rate>0.99          the share of checks that passed
 */
#include "load/check.h"

#include "load/stages.h"

#include <math.h>

#define OF(aggregate) (1u << (aggregate))

static const struct {
	const char *name;
	unsigned aggregates; /* those that it has */
} metrics[] = {
	[THRESHOLD_DURATION] = { "http_req_duration",
		OF(THRESHOLD_AVG) | OF(THRESHOLD_MIN) | OF(THRESHOLD_MED) | OF(THRESHOLD_MAX) |
			OF(THRESHOLD_P) },
	[THRESHOLD_FAILED] = { "http_req_failed", OF(THRESHOLD_RATE) },
	[THRESHOLD_REQUESTS] = { "http_reqs", OF(THRESHOLD_RATE) | OF(THRESHOLD_COUNT) },
	[THRESHOLD_CHECKS] = { "checks", OF(THRESHOLD_RATE) },
};

static const char *const aggregates[] = { "avg", "min", "med", "max", "p", "rate", "count" };

void threshold_done(struct threshold *t)
{
	free(t->text);
	*t = (struct threshold){ 0 };
}

/* Read a metric and what separates it from the aggregate. The default is the duration. */
static int metric_read(const char **p, struct threshold *t, struct mlr_error *err)
{
	size_t len = strcspn(*p, ": \t<>=!");
	const char *after = check_skip_blanks(*p + len);

	if (*after != ':' && (len == (size_t)(after - *p) || strchr("<>=!", *after)))
		return 0; /* the word is an aggregate */
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
		if (strlen(metrics[i].name) == len && memcmp(metrics[i].name, *p, len) == 0) {
			t->metric = (enum threshold_metric)i;
			*p = check_skip_blanks(*after == ':' ? after + 1 : after);
			return 0;
		}
	return mlr_fail(err, EINVAL,
		"'%.*s' is none of http_req_duration, http_req_failed, http_reqs and checks",
		(int)len, *p);
}

static int percent_read(const char **p, struct threshold *t, struct mlr_error *err)
{
	char *end;

	t->p = strtod(*p, &end);
	if (end == *p || *end != ')' || !(t->p >= 0 && t->p <= 100))
		return mlr_fail(err, EINVAL, "'p(%s' is not a percentile such as p(99)", *p);
	*p = end + 1;
	return 0;
}

static int aggregate_read(const char **p, struct threshold *t, struct mlr_error *err)
{
	size_t len = strcspn(*p, "( \t<>=!");

	for (size_t i = 0; i < ARRAY_LEN(aggregates); i++) {
		if (strlen(aggregates[i]) != len || memcmp(aggregates[i], *p, len) != 0)
			continue;
		if (!(metrics[t->metric].aggregates & OF(i)))
			return mlr_fail(err, EINVAL, "%s has no %s", metrics[t->metric].name,
				aggregates[i]);
		t->aggregate = (enum threshold_aggregate)i;
		*p += len;
		if (i != THRESHOLD_P)
			return 0;
		if (**p != '(')
			break;
		(*p)++;
		return percent_read(p, t, err);
	}
	return mlr_fail(err, EINVAL, "'%.*s' is none of avg, min, med, max, p(N), rate and count",
		(int)len, *p);
}

/* Read a bound in the metric's unit. */
static int value_read(const char *text, struct threshold *t, struct mlr_error *err)
{
	size_t len = strcspn(text, " \t"), letter = strcspn(text, "abcdefghijklmnopqrstuvwxyz%");
	char *end;
	double v = strtod(text, &end);

	if (*text == '-' || *text == '+' || *check_skip_blanks(text + len) ||
		strspn(text, "0123456789.") != letter)
		len = 0; /* neither a number nor a duration */
	if (t->metric == THRESHOLD_DURATION && letter < len) {
		if (stages_duration(text, len, &t->value) < 0)
			len = 0;
		t->value *= 1000;
	} else {
		t->value = t->metric != THRESHOLD_DURATION && *end == '%' ? v / 100 : v;
		if (end == text || end + (*end == '%') != text + len)
			len = 0;
		if (*end == '%' &&
			(t->metric == THRESHOLD_REQUESTS || t->metric == THRESHOLD_DURATION))
			len = 0;
	}
	if (!len)
		return mlr_fail(err, EINVAL, "'%s' is not a bound such as %s", text,
			t->metric == THRESHOLD_DURATION           ? "2000ms or 1.5s"
				: t->metric == THRESHOLD_REQUESTS ? "1000"
								  : "0.01 or 1%");
	return 0;
}

static int parse(const char *text, struct threshold *t, struct mlr_error *err)
{
	const char *p = check_skip_blanks(text);
	size_t len = 0;
	int op;

	TRY(metric_read(&p, t, err));
	TRY(aggregate_read(&p, t, err));
	p = check_skip_blanks(p);
	op = check_op_read(p, &len);
	if (op < 0 || op == CHECK_CONTAINS)
		return mlr_fail(err, EINVAL, "no comparison (< <= > >= == !=) at '%s'", p);
	t->op = (enum check_op)op;
	return value_read(check_skip_blanks(p + len), t, err);
}

int threshold_parse(const char *text, struct threshold *ret, struct mlr_error *err)
{
	auto_call(threshold_done) struct threshold t = { .text = xstrdup(text) };

	TRY(parse(text, &t, err));
	*ret = take_struct(&t, { 0 });
	return 0;
}

static double share(uint64_t part, uint64_t of)
{
	return of ? (double)part / (double)of : NAN;
}

static double duration_seen(const struct threshold *t, const struct histogram *h)
{
	const double p[] = { [THRESHOLD_MED] = 50, [THRESHOLD_P] = t->p };

	if (!h->count)
		return NAN;
	switch (t->aggregate) {
	case THRESHOLD_AVG:
		return histogram_mean(h) / 1000;
	case THRESHOLD_MIN:
		return (double)h->least / 1000;
	case THRESHOLD_MAX:
		return (double)h->most / 1000;
	default:
		return (double)histogram_percentile(h, p[t->aggregate]) / 1000;
	}
}

double threshold_seen(const struct threshold *t, const struct results *r)
{
	switch (t->metric) {
	case THRESHOLD_DURATION:
		return duration_seen(t, r->all);
	case THRESHOLD_FAILED:
		return share(r->failed, r->requests);
	case THRESHOLD_CHECKS:
		return share(r->checks_passed, r->checks_passed + r->checks_failed);
	default:
		return t->aggregate == THRESHOLD_COUNT ? (double)(r->requests - r->not_sent)
						       : results_rate(r);
	}
}

int threshold_kept(const struct threshold *t, const struct results *r)
{
	double seen = threshold_seen(t, r);

	return !isnan(seen) && check_numbers(t->op, seen, t->value);
}

char *threshold_shown(const struct threshold *t, double seen, char buf[48])
{
	if (isnan(seen))
		strcpy(buf, "nothing");
	else if (t->metric == THRESHOLD_DURATION)
		snprintf(buf, 48, "%.3f ms", seen);
	else if (t->metric == THRESHOLD_REQUESTS)
		snprintf(buf, 48, t->aggregate == THRESHOLD_COUNT ? "%.0f" : "%.1f/s", seen);
	else
		snprintf(buf, 48, "%.2f %%", 100 * seen);
	return buf;
}
