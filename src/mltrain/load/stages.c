#include "load/stages.h"

#include "base/duration.h"

#include <math.h>

#define LATE_S 1e-6 /* so that no rounding makes a change later than its moment */

int stages_duration(const char *text, size_t len, double *ret)
{
	double all = duration_seconds(text, len);

	if (!(all >= 0 && all <= STAGES_S_MAX))
		return -1;
	*ret = all;
	return 0;
}

static int users_parse(const char *text, size_t len, unsigned *ret)
{
	long v = len && strspn(text, "0123456789") >= len ? strtol(text, NULL, 10) : -1;

	if (v < 0 || v > STAGES_USERS_MAX)
		return -1;
	*ret = (unsigned)v;
	return 0;
}

static int stage_parse(const char *text, size_t len, struct stage *ret, struct mlr_error *err)
{
	const char *colon = memchr(text, ':', len);
	size_t before = colon ? (size_t)(colon - text) : len;

	if (!colon)
		return mlr_fail(err, EINVAL, "'%.*s' is not DURATION:USERS", (int)len, text);
	if (stages_duration(text, before, &ret->seconds) < 0)
		return mlr_fail(err, EINVAL, "'%.*s' is not a duration such as 30s, 1m30s or 500ms",
			(int)before, text);
	if (users_parse(colon + 1, len - before - 1, &ret->users) < 0)
		return mlr_fail(err, EINVAL, "'%.*s' is not a number of users from 0 to %d",
			(int)(len - before - 1), colon + 1, STAGES_USERS_MAX);
	return 0;
}

int stages_parse(const char *text, struct stages *ret, struct mlr_error *err)
{
	struct stages s = { .n = 0 };

	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");

		if (s.n == STAGES_MAX)
			return mlr_fail(err, EINVAL, "more than %d stages", STAGES_MAX);
		if (stage_parse(p, len, &s.v[s.n], err) < 0)
			return mlr_wrap(err, "stage %zu", s.n + 1);
		s.n++;
		p += len;
		if (!*p)
			break;
	}
	if (!(stages_seconds(&s) > 0) || stages_seconds(&s) > STAGES_S_MAX)
		return mlr_fail(err, EINVAL, "all stages together take %s",
			stages_seconds(&s) > 0 ? "more than a week" : "no time");
	if (!stages_most(&s))
		return mlr_fail(err, EINVAL, "no stage has users");
	*ret = s;
	return 0;
}

double stages_seconds(const struct stages *s)
{
	double all = 0;

	for (size_t i = 0; i < s->n; i++)
		all += s->v[i].seconds;
	return all;
}

unsigned stages_users(const struct stages *s, double t)
{
	double from = 1;

	for (size_t i = 0; i < s->n; i++) {
		const struct stage *v = &s->v[i];

		if (t < v->seconds)
			return (unsigned)lround(from + (v->users - from) * t / v->seconds);
		t -= v->seconds;
		from = v->users;
	}
	return (unsigned)from;
}

double stages_change(const struct stages *s, double t)
{
	double from = 1, begin = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct stage *v = &s->v[i];
		double in = t - begin, slope = (v->users - from) / v->seconds, now, change;

		if (in < v->seconds - LATE_S) {
			now = (double)lround(from + slope * in);
			change = (now + (slope > 0 ? 0.5 : -0.5) - from) / slope + LATE_S;
			if (!(fabs(slope) > 0))
				change = INFINITY;
			return begin +
				(change < v->seconds ? fmax(change, in + LATE_S) : v->seconds);
		}
		begin += v->seconds;
		from = v->users;
	}
	return INFINITY;
}

unsigned stages_most(const struct stages *s)
{
	unsigned most = 0;

	for (size_t i = 0; i < s->n; i++)
		most = s->v[i].users > most ? s->v[i].users : most;
	return most;
}
