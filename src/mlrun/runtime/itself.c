#include "runtime/itself.h"

#include <sys/mman.h>
#include <sys/syscall.h>

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

int itself_prepare(struct mlr_error *err)
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

int itself_has_launcher(void)
{
	return launcher >= 0;
}

int itself_execve(
	const char *path, char *const *argv, char *const *envp, const struct itself_texts *texts)
{
	auto_strv struct strv v = STRV_INIT;

	strv_add(&v, path);
	strv_add(&v, texts->enoexec);
	strv_add(&v, texts->enoent);
	strv_add(&v, texts->eacces);
	strv_add(&v, texts->other);
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
