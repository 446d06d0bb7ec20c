#include "bundle/talk.h"

#include "base/base.h"

#include <sys/socket.h>
#include <sys/un.h>

int talk_pair(int ends[2], struct mlr_error *err)
{
	int yes = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
		setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return mlr_fail_errno(err, "make a pair of sockets");
	return 0;
}

/* Room for what comes beside a message. */
union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int) * TALK_FDS_MAX)];
};

int talk_send_fds(int fd, const void *bytes, size_t size, const int *fds, size_t count)
{
	union control control = { .head = { .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS,
					  .cmsg_len = CMSG_LEN(sizeof(int) * count) } };
	struct iovec part = { (void *)bytes, size };
	struct msghdr h = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = count ? &control : NULL,
		.msg_controllen = count ? CMSG_SPACE(sizeof(int) * count) : 0 };
	ssize_t n;

	if (count)
		memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * count);
	do
		n = sendmsg(fd, &h, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int talk_send(int fd, const struct talk_message *m)
{
	return talk_send_fds(fd, m, sizeof(*m), NULL, 0);
}

/* Receive one, with what comes beside it: size bytes of this type, or nothing. */
static int receive(int fd, struct talk_message *ret, int type, void *beside, size_t size, int *has)
{
	union control control;
	struct iovec part = { ret, sizeof(*ret) };
	struct msghdr h = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n != sizeof(*ret))
		return -EPIPE;
	ret->error.text[sizeof(ret->error.text) - 1] = '\0';
	c = CMSG_FIRSTHDR(&h);
	*has = c && c->cmsg_type == type && c->cmsg_len == CMSG_LEN(size);
	if (*has)
		memcpy(beside, CMSG_DATA(c), size);
	return 0;
}

int talk_receive(int fd, struct talk_message *ret, pid_t *sender)
{
	struct ucred u;
	int has = 0, r = receive(fd, ret, SCM_CREDENTIALS, &u, sizeof(u), &has);

	if (has && sender)
		*sender = u.pid;
	return r;
}

int talk_receive_fds(int fd, struct talk_message *ret, int *fds, size_t n)
{
	int has = 0, r = receive(fd, ret, SCM_RIGHTS, fds, sizeof(*fds) * n, &has);

	return r < 0 ? r : has ? 0 : -EPIPE;
}

/* A socket's name has 107 bytes, and the directory's path may be longer. */
static struct sockaddr_un address(int dir)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/start", dir);
	return a;
}

int talk_listen(int dir)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = address(dir);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0)
		return -errno;
	return take_fd(&fd);
}

int talk_call(int dir)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = address(dir);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return take_fd(&fd);
}
