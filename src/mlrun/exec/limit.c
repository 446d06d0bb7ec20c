#include "exec/parts.h"

#include "base/config_value.h"

#include <math.h>
#include <sys/resource.h>

static int find(const char *text, size_t len, int *ret, struct mlr_error *err)
{
	auto_strv struct strv all = STRV_INIT;
	auto_free char *names = NULL;

	for (const struct plan_limit_word *w = plan_limit_words; w->name; w++) {
		if (strlen(w->name) == len && strncmp(w->name, text, len) == 0) {
			*ret = w->resource;
			return 0;
		}
		strv_add(&all, w->name);
	}
	names = strv_join(&all, all.n, ", ");
	return mlr_fail(err, EINVAL, "unknown limit '%.*s': use %s", (int)len, text, names);
}

/* Read one number; *s then points behind it. */
static int take_number(const char **s, rlim_t *ret, struct mlr_error *err)
{
	static const char unlimited[] = "unlimited";
	const char *text = *s;
	char *end;

	if (strncmp(text, unlimited, strlen(unlimited)) == 0 || strncmp(text, "-1", 2) == 0) {
		*s += *text == '-' ? 2 : strlen(unlimited);
		*ret = RLIM_INFINITY;
	} else {
		errno = 0;
		*ret = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || errno != 0)
			return mlr_fail(
				err, EINVAL, "invalid limit '%s': use a number or unlimited", text);
		*s = end;
	}
	return 0;
}

/* "unlimited" is what the caller may have, as scripts for MPI ask for it everywhere. */
static int check_own(int resource, const char *name, rlim_t *soft, rlim_t *hard, struct plan *p,
	struct mlr_error *err)
{
	struct rlimit own;

	if (getrlimit(resource, &own) < 0 || *hard <= own.rlim_max)
		return 0;
	if (*hard == RLIM_INFINITY) {
		strv_addf(&p->notes, "%s is %" PRIu64 ", your own hard limit, instead of unlimited",
			name, (uint64_t)own.rlim_max);
		*hard = own.rlim_max;
		if (*soft > *hard)
			*soft = *hard;
		return 0;
	}
	mlr_fail(err, EPERM, "your own hard limit of %s is %" PRIu64 " and may not be raised", name,
		(uint64_t)own.rlim_max);
	return mlr_hint(err, "an administrator raises it in limits.conf(5), or the batch system");
}

static int add(const char *text, struct plan *p, struct mlr_error *err)
{
	size_t len = strcspn(text, "=");
	const char *s = text + len + 1;
	rlim_t soft = 0, hard = 0;
	int resource = 0;

	if (!text[len])
		return mlr_fail(err, EINVAL, "expected NAME=SOFT[:HARD]");
	TRY(find(text, len, &resource, err));
	TRY(take_number(&s, &soft, err));
	hard = soft;
	if (*s == ':') {
		s++;
		TRY(take_number(&s, &hard, err));
	}
	if (*s)
		return mlr_fail(err, EINVAL, "'%s' after the number is not understood", s);
	if (soft > hard)
		return mlr_fail(err, EINVAL, "the soft limit is above the hard one");
	auto_free char *name = xstrndup(text, len);

	TRY(check_own(resource, name, &soft, &hard, p, err));
	plan_limit_set(p, resource, soft, hard);
	return 0;
}

int limit_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	return add(text, p, err) < 0 ? mlr_wrap(err, "--ulimit '%s'", text) : 0;
}

int limit_cpus(const char *text, struct plan *p, struct mlr_error *err)
{
	char *end;
	double n = strtod(text, &end);

	if (end == text || *end || !isfinite(n) || n < 0.01 || n > 1e6)
		return mlr_fail(err, EINVAL, "--cpus takes a number from 0.01 on, not '%s'", text);
	p->cpus = (unsigned)(n * 100 + 0.5);
	return 0;
}

int limit_memory(const char *text, struct plan *p, struct mlr_error *err)
{
	int r = config_bytes(text, &p->memory);

	if (r == -ERANGE)
		return mlr_fail(err, EINVAL,
			"--memory '%s' is not an amount of memory that a machine has", text);
	return r < 0
		? mlr_fail(err, EINVAL, "--memory takes a size such as 512m or 4g, not '%s'", text)
		: 0;
}
