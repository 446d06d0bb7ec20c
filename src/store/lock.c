#include "store/lock.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "store/handle.h"
#include "store/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define TELL_AFTER_MS 2000 /* a shorter wait is nobody's worry */
#define NAP_MIN_MS    5
#define NAP_MAX_MS    100

static void nap(int ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&ts, NULL);
}

/* Say who holds the lock; the file holds "PID HOST" when somebody has it for himself. */
static void tell(int fd, const char *what)
{
	char buf[128] = "", host[STORE_HOST_SIZE] = "";
	long pid = 0;
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	if (n > 0 && sscanf(buf, "%ld %64s", &pid, host) == 2)
		mlr_info("waiting for process %ld on '%s', which is %s", pid, host, what);
	else
		mlr_info("waiting for another process, which is %s", what);
}

/* Write who we are into a lock of our own, for those who wait. Nobody depends on it. */
static void sign(int fd)
{
	char host[STORE_HOST_SIZE], line[96];
	int n;

	store_process_host(host);
	n = snprintf(line, sizeof(line), "%ld %s\n", (long)getpid(), host);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, line, (size_t)n, 0) != n)
		mlr_debug("lock: cannot sign: %s", strerror(errno));
}

int store_lock_change(struct store *st, int fd, const char *path, enum store_lock_how how,
	const char *what, struct mlr_error *err)
{
	int op = (how == STORE_LOCK_SHARED ? LOCK_SH : LOCK_EX) | LOCK_NB;
	int waited_ms = 0, told = 0, ms = NAP_MIN_MS;

	/* Asking again and again instead of sleeping in flock(2) lets us say whom we wait for. */
	while (flock(fd, op) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK) {
			int r = mlr_fail_errno(err, "lock '%s'", path);

			mlr_hint(err,
				"the store's file system must support flock; choose another "
				"directory with --store or MLRUN_STORE");
			return r;
		}
		if (how == STORE_LOCK_TRY)
			return mlr_fail(
				err, EWOULDBLOCK, "lock '%s': another process is %s", path, what);
		if (st->cancelled && st->cancelled(st->cancelled_ctx))
			return mlr_fail(err, ECANCELED, "interrupted");
		if (waited_ms >= TELL_AFTER_MS && !told) {
			tell(fd, what);
			told = 1;
		}
		nap(ms);
		waited_ms += ms;
		ms = ms * 2 < NAP_MAX_MS ? ms * 2 : NAP_MAX_MS;
	}
	if (how != STORE_LOCK_SHARED)
		sign(fd);
	return 0;
}

int store_lock(struct store *st, const char *path, enum store_lock_how how, const char *what,
	struct mlr_error *err)
{
	for (;;) {
		auto_close int fd =
			openat(store_fd(st), path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
		struct stat mine, there;
		int r;

		if (fd < 0)
			return mlr_fail_errno(err, "open lock '%s/%s'", store_path(st), path);
		r = store_lock_change(st, fd, path, how, what, err);
		if (r < 0)
			return r;

		/* The holder before us may have removed the file: then nobody else would see our
		 * lock. */
		if (fstat(fd, &mine) == 0 &&
			fstatat(store_fd(st), path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
			mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			return take_fd(&fd);
	}
}

void store_lock_remove(struct store *st, const char *path, int *fd)
{
	if (*fd < 0)
		return;
	unlinkat(store_fd(st), path, 0);
	flock(*fd, LOCK_UN); /* also when a child that was forked meanwhile has a copy */
	close(take_fd(fd));
}
