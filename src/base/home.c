#include "base/home.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

char *home_dir(struct mlr_error *err)
{
	const char *dir = getenv("HOME");

	if (!dir || dir[0] != '/') {
		struct passwd *pw = getpwuid(geteuid());

		dir = pw ? pw->pw_dir : NULL;
	}
	if (dir && dir[0] == '/')
		return xstrdup(dir);
	mlr_fail(err, ENOENT, "user %ld has no home directory", (long)geteuid());
	return NULL;
}

char *home_xdg_dir(const char *variable, const char *fallback, struct mlr_error *err)
{
	const char *dir = getenv(variable);
	auto_free char *home = NULL;

	if (dir && dir[0] == '/')
		return xstrdup(dir);
	home = home_dir(err);
	return home ? xasprintf("%s/%s", home, fallback) : NULL;
}
