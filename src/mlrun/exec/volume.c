#include "exec/users_mounts.h"

int volume_flag(const char *word, size_t len, unsigned *flags, struct mlr_error *err)
{
	static const struct {
		const char *name;
		unsigned flag;
		const char *why_not;
	} known[] = {
		{ "ro", PLAN_READONLY },
		{ "rw" },
		{ "nosuid", PLAN_NOSUID },
		{ "nodev", PLAN_NODEV },
		{ "noexec", PLAN_NOEXEC },
		{ "suid" },
		{ "dev" },
		{ "exec" },
		{ "z" },
		{ "Z" },
		{ "bind" },
		{ "rbind" },
		{ "private" },
		{ "rprivate" },
		{ "slave" },
		{ "rslave" },
		{ "cached" },
		{ "delegated" },
		{ "consistent" },
		{ "shared", 0, "mounts made in a container cannot reach the host without root" },
		{ "rshared", 0, "mounts made in a container cannot reach the host without root" },
		{ "unbindable", 0, "the container is the caller's own, who may bind anything" },
		{ "runbindable", 0, "the container is the caller's own, who may bind anything" },
		{ "U", 0, "the files are the caller's own inside as well, and no others can be" },
		{ "nocopy", 0, "mlrun has no named volumes" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strlen(known[i].name) != len || strncmp(known[i].name, word, len) != 0)
			continue;
		if (known[i].why_not)
			return mlr_fail(err, ENOTSUP, "'%s' is not supported: %s", known[i].name,
				known[i].why_not);
		*flags |= known[i].flag;
		return 0;
	}
	return mlr_fail(err, EINVAL,
		"invalid volume flag '%.*s': use ro, rw, nosuid, nodev, noexec or O", (int)len,
		word);
}

static int parse_flags(
	const char *s, enum plan_kind *kind, unsigned *flags, int *optional, struct mlr_error *err)
{
	static const char word[] = "optional";

	for (;;) {
		size_t len = strcspn(s, ",");
		int r = 0;

		if (len == 1 && *s == 'O')
			*kind = PLAN_OVERLAY;
		else if (len == strlen(word) && strncmp(s, word, len) == 0)
			*optional = 1;
		else
			r = volume_flag(s, len, flags, err);
		if (r < 0 || !s[len])
			return r;
		s += len + 1;
	}
}

/* Report a missing source. For one that is only read, creating it empty is no help. */
static int source_missing(const char *source, int is_read, struct mlr_error *err)
{
	int r = mlr_fail_errno(err, "source '%s'", source);

	if (err->code != ENOENT)
		return r;
	if (source[0] == '~')
		mlr_hint(err, "the shell does not expand '~' there; write $HOME");
	else if (!strchr(source, '/'))
		mlr_hint(
			err, "mlrun has no named volumes; write ./%s for a directory here", source);
	else if (!is_read)
		mlr_hint(err, "make it first: mkdir -p '%s'", source);
	return r;
}

/* The source's name as typed, made absolute: links in it are up to the user. */
static char *same_path(const char *source)
{
	auto_free char *cwd = source[0] == '/' ? xstrdup("") : getcwd(NULL, 0);
	auto_free char *path = xasprintf("%s/%s", cwd ? cwd : "", source);

	return path_clean(path);
}

int volume_add(enum plan_kind kind, const char *source, const char *target, unsigned flags,
	struct plan *p, struct mlr_error *err)
{
	auto_free char *real = realpath(source, NULL);
	auto_free char *same = target ? NULL : same_path(source);
	struct stat st;

	if (!real)
		return source_missing(source, kind == PLAN_OVERLAY || (flags & PLAN_READONLY), err);
	if (kind == PLAN_OVERLAY && (stat(real, &st) < 0 || !S_ISDIR(st.st_mode)))
		return mlr_fail(err, ENOTDIR,
			"source '%s' is not a directory, which an overlay needs", source);
	return plan_mount_add(p, kind, real, target ? target : same, flags, PLAN_FROM_USER, err);
}

static int add(const char *text, struct plan *p, struct mlr_error *err)
{
	const char *c1 = strchr(text, ':'), *c2 = c1 ? strchr(c1 + 1, ':') : NULL;
	auto_free char *source = c1 ? xstrndup(text, (size_t)(c1 - text)) : xstrdup(text);
	auto_free char *target = NULL;
	enum plan_kind kind = PLAN_BIND;
	unsigned flags = 0;
	int optional = 0, r;

	if (c1)
		target = c2 ? xstrndup(c1 + 1, (size_t)(c2 - c1 - 1)) : xstrdup(c1 + 1);
	if (c2)
		TRY(parse_flags(c2 + 1, &kind, &flags, &optional, err));
	if (!*source || (target && !*target))
		return mlr_fail(err, EINVAL, "expected SRC[:DST[:FLAGS]], with neither empty");
	r = volume_add(kind, source, target, flags, p, err);
	if (!optional || (r != -ENOENT && r != -ENOTDIR && r != -EACCES))
		return r;
	mlr_wrap(err, "volume '%s'", text);
	mlr_log_failure(MLR_DEBUG, err, ", left out");
	return 0;
}

int volume_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	return add(text, p, err) < 0 ? mlr_wrap(err, "-v '%s'", text) : 0;
}

int volume_configured(
	const char *text, enum plan_origin origin, struct plan *p, struct mlr_error *err)
{
	size_t before = p->n_mounts;

	TRY(add(text, p, err));
	for (size_t i = before; i < p->n_mounts; i++)
		p->mounts[i].origin = origin;
	return 0;
}
