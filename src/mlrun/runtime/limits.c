#include "runtime/limits.h"

/* A descriptor for each tree and mount, and some for short use. */
static rlim_t files_needed(const struct plan *p)
{
	return p->lowers.n + p->n_mounts + 64;
}

void limits_raise(const struct plan *p, struct rlimit *old)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, old) < 0) {
		old->rlim_cur = old->rlim_max = RLIM_INFINITY;
		return;
	}
	if (old->rlim_cur >= files_needed(p))
		return;
	most = *old;
	most.rlim_cur = most.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &most) < 0)
		mlr_debug("raise the limit of open files: %s", strerror(errno));
}

int limits_hint(const struct plan *p, int r, struct mlr_error *err)
{
	if (r == -EMFILE)
		mlr_hint(err,
			"the hard limit of open files is too low, ulimit -Hn shows it: "
			"%ju are enough for this container",
			(uintmax_t)files_needed(p));
	return r;
}

static void value_text(rlim_t v, char text[24])
{
	if (v == RLIM_INFINITY)
		snprintf(text, 24, "unlimited");
	else
		snprintf(text, 24, "%" PRIu64, (uint64_t)v);
}

static int limit_failed(const struct plan_limit *l, const struct rlimit *now, struct mlr_error *err)
{
	const char *name = plan_limit_name(l->resource);
	char soft[24], hard[24], most[24];
	int code = errno;

	value_text(l->soft, soft);
	value_text(l->hard, hard);
	value_text(now->rlim_max, most);
	mlr_fail(err, code, "set the limit %s to %s:%s: %s", name ? name : "?", soft, hard,
		strerror(code));
	if (code == EPERM)
		mlr_hint(err, "the hard limit is %s, and only an administrator may raise it", most);
	return -code;
}

int limits_set(const struct plan *p, const struct rlimit *old, struct mlr_error *err)
{
	struct rlimit now;

	/* Restore the soft limit; the hard one has not changed. */
	if (old->rlim_cur < files_needed(p) && setrlimit(RLIMIT_NOFILE, old) < 0)
		return mlr_fail_errno(err, "give the limit of open files back");
	for (size_t i = 0; i < p->n_limits; i++) {
		const struct plan_limit *l = &p->limits[i];
		const struct rlimit wanted = { .rlim_cur = l->soft, .rlim_max = l->hard };

		if (getrlimit((__rlimit_resource_t)l->resource, &now) < 0)
			now.rlim_max = RLIM_INFINITY;
		if (setrlimit((__rlimit_resource_t)l->resource, &wanted) < 0)
			return limit_failed(l, &now, err);
	}
	return 0;
}
