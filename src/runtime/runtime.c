#include "runtime/runtime.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "runtime/mounts.h"
#include "runtime/privileges.h"
#include "runtime/squash.h"
#include "runtime/userns.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

int runtime_enter(const struct plan *p, struct mlr_error *err)
{
	auto_call(squash_done) struct squash_server server = SQUASH_SERVER_INIT;
	int r;

	if (p->squashfs) {
		r = squash_start(p, &server, err);
		if (r < 0)
			return r;
	}
	r = userns_enter(&p->id, err);
	if (r < 0)
		return r;
	r = mounts_enter(p, &server, err);
	if (r < 0)
		return r;
	r = privileges_drop(&p->id, err);
	if (r < 0)
		return r;
	return privileges_close_fds(p, err);
}

/* execve(2) failed on a file that is there: say why, as far as the errno tells. */
static int exec_failed(const struct plan *p, const char *path, int code, struct mlr_error *err)
{
	struct stat st;
	struct utsname u;

	if (code == ENOENT && stat(path, &st) == 0)
		/* Not ENOENT, which says that there is no such command. */
		return mlr_fail(err, ENOEXEC,
			"'%s' is in the image, but the interpreter it names (its '#!' line or ELF loader) is not",
			path);
	if (code == ENOEXEC) {
		uname(&u);
		mlr_fail(err, code, "'%s': %s", path, strerror(code));
		mlr_hint(err, "the image is for %s, this machine is %s; a script needs a '#!' line",
			p->platform ? p->platform : "an unknown platform", u.machine);
		return -code;
	}
	if (code == EACCES && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return mlr_fail(err, EISDIR, "'%s' is a directory", path);
	return mlr_fail(err, code, "'%s': %s", path, strerror(code));
}

/* Errors that say "not here, look on", as execvp(3) takes them. */
static int look_on(int code)
{
	return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG;
}

static int exec_in_path(
	const struct plan *p, char *const *argv, char *const *envp, struct mlr_error *err)
{
	const char *path = plan_env_get(p, "PATH");
	int denied = 0;
	auto_free char *denied_path = NULL;
	struct stat st;

	for (const char *s = path ? path : "/usr/local/bin:/usr/bin:/bin"; s;) {
		size_t len = strcspn(s, ":");
		auto_free char *file =
			xasprintf("%.*s/%s", (int)(len ? len : 1), len ? s : ".", argv[0]);

		execve(file, argv, envp);
		if (!look_on(errno) || (errno == ENOENT && stat(file, &st) == 0))
			return exec_failed(p, file, errno, err);
		if (errno == EACCES && !denied) {
			denied = 1;
			denied_path = take_ptr(&file);
		}
		s = s[len] ? s + len + 1 : NULL;
	}
	if (denied)
		return exec_failed(p, denied_path, EACCES, err);
	return mlr_fail(err, ENOENT, "command '%s' not found in the image (PATH is %s)", argv[0],
		path ? path : "not set");
}

int runtime_exec(const struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT;
	char *const *argv = strv_argv(&p->argv);
	char *const *envp;

	plan_env_list(p, &env);
	envp = strv_argv(&env);
	if (!strchr(argv[0], '/'))
		return exec_in_path(p, argv, envp, err);

	execve(argv[0], argv, envp);
	if ((errno == ENOENT || errno == ENOTDIR)) {
		struct stat st;

		if (stat(argv[0], &st) < 0)
			return mlr_fail(
				err, ENOENT, "command '%s' not found in the image", argv[0]);
	}
	return exec_failed(p, argv[0], errno, err);
}
