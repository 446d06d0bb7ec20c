#include "runtime/runtime.h"

#include "base/machine.h"
#include "fakeroot/fakeroot.h"
#include "runtime/limits.h"
#include "runtime/mounts.h"
#include "runtime/privileges.h"
#include "runtime/seccomp.h"
#include "runtime/share.h"
#include "runtime/supervise.h"
#include "runtime/userns.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

/* --- mlrun's own file -------------------------------------------------------------- */

/*
 * Guards against CVE-2019-5736: where the caller may write mlrun's own file, a hostile image must
 * not get hold of it. The command's file can be a link to /proc/self/exe, or become one at any
 * moment, and then the host's mlrun would run as a program of the container: /proc/PID/exe leads
 * any other process there to the file, which it could overwrite. So mlrun does not execute the
 * command itself: it becomes a small program in sealed memory (launcher.c), which does.
 */

/* Texts that the launcher prints after a failed execve(2), each with its newline; but after the
 * last one it prints the errno value. */
struct itself_texts {
	const char *enoexec;
	const char *enoent;
	const char *eacces;
	const char *other;
};

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* Linux 6.3 */
#endif

static const unsigned char program[] = {
#include "runtime/launcher.inc"
};

static int launcher = -1;

/* An owner can change the mode, and root can do either. */
static int can_write_itself(const struct stat *st)
{
	uid_t me = geteuid();

	return me == 0 || st->st_uid == me || access("/proc/self/exe", W_OK) == 0;
}

/* Look outside, before the container is entered, whether the caller can write mlrun's file, and
 * make the launcher if so. Returns 0 or -errno. */
static int itself_prepare(struct mlr_error *err)
{
	auto_close int fd = -1;
	struct stat st;

	if (stat("/proc/self/exe", &st) < 0)
		return mlr_fail_errno(err, "look at mlrun's own program, '/proc/self/exe'");
	if (launcher >= 0 || !can_write_itself(&st))
		return 0;
	fd = memfd_create("mlrun-launcher", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("mlrun-launcher", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		mlr_fail_errno(err, "make a program in memory, which starts the command");
		return err->code != EACCES
			? -err->code
			: mlr_hint(err,
				  "vm.memfd_noexec is 2: an administrator sets it to 1, or installs mlrun "
				  "where the caller cannot write it");
	}
	TRY(mlr_result(
		err, file_write_all(fd, program, sizeof(program)), "write a program in memory"));
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return mlr_fail_errno(err, "seal a program in memory");
	launcher = take_fd(&fd);
	return 0;
}

/* Must commands start by itself_execve()? */
static int itself_has_launcher(void)
{
	return launcher >= 0;
}

/* Execute a program through the launcher. Returns -errno if the launcher itself did not start; if
 * the program does not, the text is printed and the exit status is 126. */
static int itself_execve(
	const char *path, char *const *argv, char *const *envp, const struct itself_texts *texts)
{
	auto_strv struct strv v = STRV_INIT;

	strv_add_words(&v, path, texts->enoexec, texts->enoent, texts->eacces, texts->other);
	for (size_t i = 0; argv[i]; i++)
		strv_add(&v, argv[i]);
	syscall(SYS_execveat, launcher, "", strv_argv(&v), envp, AT_EMPTY_PATH);
	/* Some seccomp profiles know only execve(2). */
	if (errno == EPERM || errno == ENOSYS) {
		auto_free char *name = xasprintf("/proc/self/fd/%d", launcher);
		int code = errno;

		execve(name, strv_argv(&v), envp);
		errno = code;
	}
	return -errno;
}

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
	TRY(r);
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
	TRY(r);
	r = enter_or_make(p, stops, &share, &squash, &made, err);
	if (r < 0)
		return limits_hint(p, r, err);
	if (privileges_kept(p))
		r = fakeroot_start(&fakeroot, err);
	if (r >= 0)
		r = privileges_drop(p, err);
	TRY(r);
	if (made && p->init)
		TRY(supervise_init(err));
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
