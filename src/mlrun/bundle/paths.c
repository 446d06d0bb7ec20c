/* Paths inside, looked up where the plan's mounts will show them. */
#include "bundle/parts.h"

/* The host's directory or file that is seen at a mount's target; NULL for an empty one. */
static const char *seen_at(const struct plan_mount *m)
{
	switch (m->kind) {
	case PLAN_BIND:
		return m->source;
	case PLAN_PROC:
		return "/proc";
	case PLAN_SYSFS:
		return "/sys";
	default:
		return NULL;
	}
}

/* Find the host's file that a clean path inside shows, and resolve links in it as inside. Returns 1
 * and the path to free(), or 0. */
static int find(const struct plan *p, const char *path, char **ret, struct stat *st)
{
	const char *base = p->lowers.v[0], *rest = path;
	auto_close int top = -1, fd = -1;

	for (size_t i = p->n_mounts; i-- > 0;) {
		const struct plan_mount *m = &p->mounts[i];

		if (!path_below(path, m->target))
			continue;
		base = seen_at(m);
		rest = path + strlen(m->target);
		break;
	}
	if (!base)
		return 0;
	top = open(base, O_PATH | O_CLOEXEC);
	if (top < 0)
		return 0;
	fd = *rest ? file_open_in_root(top, rest, O_PATH, 0) : take_fd(&top);
	if (fd < 0 || fstat(fd, st) < 0)
		return 0;
	*ret = file_fd_path(fd);
	return *ret != NULL;
}

static int cover(const char *path, struct plan *p, struct mlr_error *err)
{
	int r = plan_mount_add(p, PLAN_TMPFS, NULL, path, PLAN_READONLY, PLAN_FROM_CONFIG, err);

	if (r == 0)
		p->mounts[p->n_mounts - 1].options = xstrdup("mode=0555,size=4k");
	return r;
}

static int mask(const char *path, struct plan *p, struct mlr_error *err)
{
	auto_free char *clean = path_clean(path), *host = NULL;
	const struct plan_mount *m;
	struct stat st;

	if (!clean)
		return mlr_fail(err, EPROTO, "'maskedPaths': '%s' is not absolute", path);
	m = plan_mount_at(p, clean);
	if (m && m->kind != PLAN_BIND) /* a file system, so a directory */
		return cover(clean, p, err);
	if (!find(p, clean, &host, &st))
		return 0;
	if (!S_ISDIR(st.st_mode))
		return plan_mount_add(p, PLAN_BIND, "/dev/null", clean, 0, PLAN_FROM_CONFIG, err);
	return cover(clean, p, err);
}

int paths_mask(const struct strv *paths, struct plan *p, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++)
		r = mask(paths->v[i], p, err);
	return r;
}

int paths_seal(const struct strv *paths, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < paths->n; i++) {
		auto_free char *clean = path_clean(paths->v[i]), *host = NULL;
		struct stat st;
		int r = 0;

		if (!clean)
			return mlr_fail(
				err, EPROTO, "'readonlyPaths': '%s' is not absolute", paths->v[i]);
		/* A mount is sealed itself: the container's own /proc is not the host's. */
		if (plan_mount_at(p, clean))
			r = plan_mount_add(
				p, PLAN_SEAL, NULL, clean, PLAN_READONLY, PLAN_FROM_CONFIG, err);
		else if (find(p, clean, &host, &st))
			r = plan_mount_add(
				p, PLAN_BIND, host, clean, PLAN_READONLY, PLAN_FROM_CONFIG, err);
		TRY(r);
	}
	return 0;
}
