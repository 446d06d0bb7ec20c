#include "exec/volume.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse_flag(const char *s, size_t len, unsigned *flags)
{
	static const struct {
		const char *name;
		unsigned flag;
	} known[] = {
		{ "ro", PLAN_READONLY },
		{ "rw", 0 },
		{ "nosuid", PLAN_NOSUID },
		{ "nodev", PLAN_NODEV },
		{ "noexec", PLAN_NOEXEC },
		{ "z", 0 },
		{ "Z", 0 },
		{ "rbind", 0 },
		{ "bind", 0 },
		{ "rprivate", 0 },
		{ "private", 0 },
		{ "rslave", 0 },
		{ "slave", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strlen(known[i].name) == len && strncmp(known[i].name, s, len) == 0) {
			*flags |= known[i].flag;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_flags(const char *s, unsigned *flags, struct mlr_error *err)
{
	for (;;) {
		size_t len = strcspn(s, ",");

		if (parse_flag(s, len, flags) < 0)
			return mlr_fail(err, EINVAL,
				"'%.*s' is no volume flag: ro, rw, nosuid, nodev, noexec are",
				(int)len, s);
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

static int source_missing(const char *source, struct mlr_error *err)
{
	int r = mlr_fail_errno(err, "source '%s'", source);

	if (err->code == ENOENT)
		mlr_hint(err,
			strchr(source, '/')
				? "make it first: mkdir -p '%s'"
				: "mlrun has no named volumes; write ./%s for a directory here",
			source);
	return r;
}

/* The source's name as it was typed, made absolute: links in it are the user's business. */
static char *same_path(const char *source)
{
	auto_free char *cwd = source[0] == '/' ? xstrdup("") : getcwd(NULL, 0);
	auto_free char *path = xasprintf("%s/%s", cwd ? cwd : "", source);

	return path_clean(path);
}

static int add(const char *text, struct plan *p, struct mlr_error *err)
{
	const char *c1 = strchr(text, ':'), *c2 = c1 ? strchr(c1 + 1, ':') : NULL;
	auto_free char *source = c1 ? xstrndup(text, (size_t)(c1 - text)) : xstrdup(text);
	auto_free char *target = NULL, *real = NULL;
	unsigned flags = 0;
	int r;

	if (c1)
		target = c2 ? xstrndup(c1 + 1, (size_t)(c2 - c1 - 1)) : xstrdup(c1 + 1);
	if (c2) {
		r = parse_flags(c2 + 1, &flags, err);
		if (r < 0)
			return r;
	}
	if (!*source || (target && !*target))
		return mlr_fail(err, EINVAL, "SRC[:DST[:FLAGS]] is wanted, with neither empty");
	real = realpath(source, NULL);
	if (!real)
		return source_missing(source, err);
	if (!target)
		target = same_path(source);
	return plan_mount_add(p, PLAN_BIND, real, target, flags, "user", err);
}

int volume_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	int r = add(text, p, err);

	return r < 0 ? mlr_wrap(err, "-v '%s'", text) : 0;
}
