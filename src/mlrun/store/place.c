#include "store/place.h"

#include "base/base.h"
#include "base/home.h"

static void told_by(char **origin, char *take)
{
	if (origin)
		*origin = take;
	else
		free(take);
}

int store_place(const struct config *c, char **ret, char **origin, struct mlr_error *err)
{
	const char *dir = getenv("MLRUN_STORE"), *xdg = getenv("XDG_DATA_HOME");
	const struct config_value *v = config_get(c, "", "store");
	auto_free char *data = NULL;

	/* A relative one would mean another store in every directory. */
	if (dir && *dir && dir[0] != '/') {
		mlr_fail(err, EINVAL, "MLRUN_STORE='%s': expected an absolute path", dir);
		return mlr_hint(err, "--store takes a relative one");
	}
	if (dir && *dir) {
		*ret = xstrdup(dir);
		told_by(origin, xstrdup("MLRUN_STORE"));
		return 0;
	}
	if (v) {
		*ret = xstrdup(v->value);
		told_by(origin, xasprintf("%s:%d", v->file, v->line));
		return 0;
	}
	data = home_xdg_dir("XDG_DATA_HOME", ".local/share", err);
	if (!data) {
		mlr_wrap(err, "no place for the store");
		mlr_hint(err, "name one with --store or MLRUN_STORE");
		return -ENOENT;
	}
	*ret = xasprintf("%s/mlrun", data);
	told_by(origin, xstrdup(xdg && xdg[0] == '/' ? "XDG_DATA_HOME" : "default"));
	return 0;
}

char *store_place_nearest(const char *path)
{
	auto_free char *cwd = path[0] == '/' ? xstrdup("") : getcwd(NULL, 0);
	auto_free char *absolute = xasprintf("%s/%s", cwd ? cwd : "", path);
	char *dir = path_clean(absolute);
	struct stat sb;

	while (dir[1] && stat(dir, &sb) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		char *slash = strrchr(dir, '/');

		slash[slash == dir] = '\0';
	}
	return dir;
}
