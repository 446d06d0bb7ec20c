#include "store/place.h"

#include "base/cleanup.h"
#include "base/home.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>

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
