#include "runtime/runtime.h"

#include "base/machine.h"
#include "fakeroot/fakeroot.h"
#include "runtime/itself.h"
#include "runtime/limits.h"
#include "runtime/mounts.h"
#include "runtime/privileges.h"
#include "runtime/seccomp.h"
#include "runtime/share.h"
#include "runtime/supervise.h"
#include "runtime/userns.h"

#include <stdbool.h>
#include <sys/utsname.h>

/* Make the container: its namespaces, then its root, in the process that will run there. */
static int make(const struct plan *p, const struct share *share, struct squash_share *squash,
	const struct runtime_stops *stops, int proc, struct mlr_error *err)
{
	auto_call(squash_done) struct squash_server server = SQUASH_SERVER_INIT;
	int r;

	if (p->squashfs)
		TRY(squash_start(p, squash, &server, err));
	r = p->in_user_namespace || share->in_user_namespace || squash->userns >= 0
		? userns_enter_shared(p, squash->userns, err)
		: userns_enter(&p->id, err);
	if (r == 0)
		r = userns_add(p, err);
	if (r == 0 && (p->namespaces & PLAN_NS_PID))
		r = p->detached ? supervise_detach(err)
				: supervise_fork(proc, p->dies_with_parent, NULL, err);
	return r < 0 ? r : mounts_enter(p, &server, stops, err);
}

/* Enter the existing container, if there is one; else make it. */
static int enter_or_make(const struct plan *p, const struct runtime_stops *stops,
	struct share *share, struct squash_share *squash, int *made, struct mlr_error *err)
{
	auto_close int proc = -1;
	int r;

	/* The host's /proc, which shows the waiting supervisor its child. */
	if (p->join || (p->namespaces & PLAN_NS_PID)) {
		proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (proc < 0)
			return mlr_fail_errno(err, "open '/proc'");
	}
	r = p->join ? share_join(p, err) : share_enter(p, share, err);
	if (r < 0)
		return r;
	*made = r == SHARE_NOBODY;
	if (r == SHARE_NOBODY)
		return make(p, share, squash, stops, proc, err);
	if (r == SHARE_ENTERED_PID) {
		TRY(p->detached ? supervise_detach(err)
				: supervise_fork(proc, p->dies_with_parent, NULL, err));
	}
	return mounts_enter_workdir(p, err);
}

int runtime_enter(const struct plan *p, struct mlr_error *err)
{
	return runtime_enter_stopping(p, NULL, err);
}

int runtime_enter_stopping(
	const struct plan *p, const struct runtime_stops *stops, struct mlr_error *err)
{
	auto_call(share_done) struct share share = SHARE_INIT;
	auto_call(squash_share_done) struct squash_share squash = SQUASH_SHARE_INIT;
	auto_call(seccomp_done) struct seccomp seccomp = { 0 };
	auto_call(fakeroot_done) struct fakeroot fakeroot = FAKEROOT_INIT;
	const struct fakeroot_user user = { p->id.shown_uid, p->id.shown_gid, p->id.groups,
		p->id.n_groups };
	struct rlimit files;
	int made = 0, r;

	limits_raise(p, &files);
	TRY(itself_prepare(err));
	TRY(seccomp_prepare(p, &seccomp, err));
	r = cgroup_enter("/", p, err);
	if (r == 0 && privileges_kept(p))
		r = fakeroot_prepare(p->kept, &p->lowers, &user, &fakeroot, err);
	if (r < 0)
		return r;
	r = enter_or_make(p, stops, &share, &squash, &made, err);
	if (r < 0)
		return limits_hint(p, r, err);
	if (privileges_kept(p))
		r = fakeroot_start(&fakeroot, err);
	if (r >= 0)
		r = privileges_drop(p, err);
	if (r < 0)
		return r;
	if (made && p->init) {
		TRY(supervise_init(err));
	}
	TRY(share_open(&share, err));
	squash_share_open(&squash);
	r = privileges_close_fds(p, err);
	if (r == 0)
		r = limits_set(p, &files, err);
	if (r == 0 && fakeroot.sock >= 0)
		r = fakeroot_apply(&fakeroot, err);
	if (r == 0 && stops)
		r = stops->before_command(stops->ctx, err);
	return r < 0 ? r : seccomp_apply(&seccomp, err);
}

/* The machine that a program is built for, from its ELF header; NULL if it is not an ELF file. */
static const struct machine *machine_of(const char *path)
{
	unsigned char head[MACHINE_ELF_HEAD];
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || file_read_full(fd, head, sizeof(head)) != sizeof(head))
		return NULL;
	return machine_of_elf(head, sizeof(head));
}

static int cannot_execute(const struct plan *p, const char *path, struct mlr_error *err)
{
	const struct machine *m = machine_of(path);
	struct utsname u;

	uname(&u);
	if (m && !machine_is_native(m)) {
		mlr_fail(err, ENOEXEC, "'%s' is a program for %s, this machine is %s", path,
			m->arch, u.machine);
		return mlr_hint(err,
			"an image for this machine is needed, or an emulator that the kernel knows: "
			"qemu-user-static and binfmt_misc");
	}
	mlr_fail(err, ENOEXEC, "'%s': %s", path, strerror(ENOEXEC));
	if (!p->platform)
		return mlr_hint(err, "this machine is %s; a script needs a '#!' line", u.machine);
	return mlr_hint(err, "the image is for %s, this machine is %s; a script needs a '#!' line",
		p->platform, u.machine);
}

/* execve(2) failed on an existing file: explain the errno as far as possible. */
static int exec_failed(const struct plan *p, const char *path, int code, struct mlr_error *err)
{
	struct stat st;

	if (code == ENOENT && stat(path, &st) == 0)
		/* ENOENT would mean that there is no such command. */
		return mlr_fail(err, ENOEXEC,
			"'%s' is in the image, but the interpreter it names (its '#!' line or ELF loader) is not",
			path);
	if (code == ENOEXEC)
		return cannot_execute(p, path, err);
	if (code == EACCES && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return mlr_fail(err, EISDIR, "'%s' is a directory", path);
	mlr_fail(err, code, "'%s': %s", path, strerror(code));
	if (itself_has_launcher() && (code == EPERM || code == ENOSYS))
		mlr_hint(err,
			"where the caller can write mlrun's own file, a command starts by execveat(2), or "
			"execve(2) of /proc/self/fd/N: a seccomp profile has to allow one");
	return -code;
}

/* Errors after which execvp(3) tries the next directory. */
static int look_on(int code)
{
	return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG;
}

/* Format the message of exec for such a failure, with its newline; to free(). */
static char *failure_text(const struct plan *p, const char *path, int code)
{
	struct mlr_error err = MLR_ERROR_INIT;

	exec_failed(p, path, code, &err);
	mlr_wrap(&err, "mlrun: exec '%s'", p->image);
	return xasprintf("%s\n", err.text);
}

/* Execute the file through the launcher, unless that would certainly fail; returns -errno. */
static int execute_apart(
	const struct plan *p, const char *path, char *const *argv, char *const *envp)
{
	struct stat st;

	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 || stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;

	auto_free char *enoexec = failure_text(p, path, ENOEXEC);
	auto_free char *enoent = failure_text(p, path, ENOENT);
	auto_free char *eacces = failure_text(p, path, EACCES);
	auto_free char *other = xasprintf("mlrun: exec '%s': '%s': errno ", p->image, path);
	const struct itself_texts texts = { enoexec, enoent, eacces, other };

	return itself_execve(path, argv, envp, &texts);
}

/* Returns -errno. */
static int execute(const struct plan *p, const char *path, char *const *argv, char *const *envp)
{
	if (itself_has_launcher())
		return execute_apart(p, path, argv, envp);
	execve(path, argv, envp);
	return -errno;
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
		int r = execute(p, file, argv, envp);

		if (!look_on(-r) || (r == -ENOENT && stat(file, &st) == 0))
			return exec_failed(p, file, -r, err);
		if (r == -EACCES && !denied) {
			denied = 1;
			denied_path = take_ptr(&file);
		}
		s = s[len] ? s + len + 1 : NULL;
	}
	if (p->commands) {
		auto_free char *file = xasprintf("%s/%s", p->commands, argv[0]);

		if (access(file, X_OK) == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode))
			return exec_failed(p, file, -execute(p, file, argv, envp), err);
	}
	if (denied)
		return exec_failed(p, denied_path, EACCES, err);
	return mlr_fail(err, ENOENT, "command '%s' not found in the image (PATH is %s)", argv[0],
		path ? path : "not set");
}

static int not_found(const struct plan *p, const char *path, struct mlr_error *err)
{
	mlr_fail(err, ENOENT, "command '%s' not found in the image", path);
	if (path[0] == '/' || p->workdir_origin != PLAN_FROM_IMAGE)
		return -ENOENT;
	return mlr_hint(err,
		"the command starts in '%s', the image's directory; -w DIR and --home choose another",
		p->workdir);
}

int runtime_find_command(const struct plan *p, struct mlr_error *err)
{
	const char *name = p->argv.v[0], *path = plan_env_get(p, "PATH");
	int code = ENOENT;

	for (const char *s = strchr(name, '/') ? ""
			: path                 ? path
					       : "/usr/local/bin:/usr/bin:/bin";
		s;) {
		size_t len = strcspn(s, ":");
		auto_free char *file =
			len ? xasprintf("%.*s/%s", (int)len, s, name) : xstrdup(name);
		struct stat st;
		bool there = stat(file, &st) == 0;

		if (there ? strchr(name, '/') || !S_ISDIR(st.st_mode) : errno == EACCES)
			code = EACCES;
		if (there && S_ISREG(st.st_mode) &&
			faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) == 0)
			return 0;
		s = s[len] ? s + len + 1 : NULL;
	}
	/* Podman and containerd look for these words. */
	if (code == ENOENT)
		return mlr_fail(err, ENOENT,
			"command '%s' not found: executable file not found in $PATH", name);
	return mlr_fail(err, EACCES, "command '%s': permission denied", name);
}

static int is_there(void *ctx, const char *path)
{
	return access(path, F_OK) == 0;
}

int runtime_exec(struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT, words = STRV_INIT;
	char *const *argv, *const *envp;
	struct stat st;
	int r;

	strv_add_all(&words, &p->prelude);
	strv_add_all(&words, &p->argv);
	argv = strv_argv(&words);
	plan_env_look(p, is_there, NULL);
	plan_env_list(p, &env);
	envp = strv_argv(&env);
	if (!strchr(argv[0], '/'))
		return exec_in_path(p, argv, envp, err);

	r = execute(p, argv[0], argv, envp);
	if ((r == -ENOENT || r == -ENOTDIR) && stat(argv[0], &st) < 0)
		return not_found(p, argv[0], err);
	return exec_failed(p, argv[0], -r, err);
}
