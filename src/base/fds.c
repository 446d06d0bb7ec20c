
#include "base/base.h"

#include <linux/close_range.h>
#include <sys/socket.h>
#include <sys/syscall.h>

struct entry { /* getdents64(2) */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static void close_one(unsigned fd, int flags)
{
	if (flags & CLOSE_RANGE_CLOEXEC)
		fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	else
		close((int)fd);
}

/* The number in a name of /proc/self/fd, which has no sign and no leading zeros. */
static int number_of(const char *s, unsigned *ret)
{
	unsigned n = 0;

	if (*s < '0' || *s > '9')
		return -1;
	for (; *s; s++)
		n = n * 10 + (unsigned)(*s - '0');
	*ret = n;
	return 0;
}

static int close_listed(unsigned first, unsigned last, int flags)
{
	auto_close int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buf[4096] __attribute__((aligned(8)));
	long n;

	if (dir < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(const void *)(buf + at);
			unsigned fd;

			if (number_of(e->name, &fd) == 0 && fd >= first && fd <= last &&
				(int)fd != dir)
				close_one(fd, flags);
			at += e->len;
		}
	return n < 0 ? -errno : 0;
}

int fds_close_range(unsigned first, unsigned last, int flags)
{
	if (syscall(SYS_close_range, first, last, flags) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	return close_listed(first, last, flags);
}

void fds_open_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			return;
}

union control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int))];
};

ssize_t fds_send(int sock, const void *buf, size_t len, int fd)
{
	union control control = { 0 };
	struct iovec iov = { (void *)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	n = TEMP_FAILURE_RETRY(sendmsg(sock, &m, MSG_NOSIGNAL));
	return n < 0 ? -errno : n;
}

ssize_t fds_receive(int sock, void *buf, size_t len, int *fd)
{
	union control control;
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	ssize_t n;

	*fd = -1;
	n = TEMP_FAILURE_RETRY(recvmsg(sock, &m, MSG_CMSG_CLOEXEC));
	c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n < 0 ? -errno : n;
}
