#include "runtime/itself.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCRIPTS_MAX 6   /* one more than execve(2) follows */
#define LINE_SIZE   256 /* bytes of a '#!' line that the kernel reads (BINPRM_BUF_SIZE) */

/* The interpreter that a file's '#!' line names, to free(), or NULL. */
static char *interpreter(int fd)
{
	char line[LINE_SIZE + 1];
	ssize_t n = file_read_full(fd, line, LINE_SIZE);
	char *name;

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return NULL;
	line[n] = '\0';
	name = line + 2 + strspn(line + 2, " \t");
	return xstrndup(name, strcspn(name, " \t\n"));
}

/* Does the path use one of /proc's magic links, which lead out of any root (openat2(2))? */
static int is_magic(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	auto_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0;
}

/* Outside, as what is at /proc/self/exe inside is the container's to choose. */
static struct stat mine;

int itself_remember(struct mlr_error *err)
{
	return stat("/proc/self/exe", &mine) < 0
		? mlr_fail_errno(err, "look at mlrun's own program, '/proc/self/exe'")
		: 0;
}

int itself_refuse(const char *path, struct mlr_error *err)
{
	auto_free char *name = xstrdup(path);
	struct stat st;

	for (int i = 0; i < SCRIPTS_MAX && name && *name; i++) {
		auto_close int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		char *next;

		/* A program that may be executed but not read, such as mlrun with mode 0711. */
		if ((fd >= 0 ? fstat(fd, &st) : stat(name, &st)) < 0)
			return 0;
		if (st.st_dev == mine.st_dev && st.st_ino == mine.st_ino && is_magic(name))
			return mlr_fail(err, EPERM,
				"'%s' leads to mlrun's own program on the host, which is not the image's to run",
				path);
		next = fd >= 0 && S_ISREG(st.st_mode) ? interpreter(fd) : NULL;
		free(name);
		name = next;
	}
	return 0;
}
