#include "base/home.h"

#include "base/account.h"
#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

char *home_dir(struct mlr_error *err)
{
	auto_call(account_done) struct account account = ACCOUNT_INIT;
	const char *dir = getenv("HOME");

	if (!dir || dir[0] != '/') {
		account_find_user(geteuid(), &account);
		dir = account.home;
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
