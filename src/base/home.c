#include "base/home.h"

#include "base/base.h"
#include "base/account.h"

char *home_dir(struct mlr_error *err)
{
	auto_call(account_done) struct account account = { 0 };
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

static int is_private(const char *dir)
{
	struct stat st;

	return dir && dir[0] == '/' && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
		st.st_uid == geteuid() && (st.st_mode & 07766) == 0700;
}

char *home_runtime_dir(void)
{
	auto_free char *usual = xasprintf("/run/user/%ld", (long)geteuid());
	const char *given = getenv("XDG_RUNTIME_DIR");

	/* Root of a user namespace, as podman's and buildah's, may not write there. */
	if (geteuid() == 0 && access("/run", W_OK) == 0)
		return xstrdup("/run");
	return is_private(given) ? xstrdup(given) : is_private(usual) ? take_ptr(&usual) : NULL;
}
