#include "bundle/talk.h"

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

int talk_send(int fd, const struct talk_message *m)
{
	ssize_t n = fds_send(fd, m, sizeof(*m), -1);

	return n < 0 ? (int)n : 0;
}

int talk_receive(int fd, struct talk_message *ret, pid_t *sender)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec part = { ret, sizeof(*ret) };
	struct msghdr h = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	n = TEMP_FAILURE_RETRY(recvmsg(fd, &h, MSG_CMSG_CLOEXEC));
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if (n != sizeof(*ret))
		return -EPIPE;
	ret->error.text[sizeof(ret->error.text) - 1] = '\0';
	c = CMSG_FIRSTHDR(&h);
	if (sender && c && c->cmsg_type == SCM_CREDENTIALS) {
		struct ucred u;

		memcpy(&u, CMSG_DATA(c), sizeof(u));
		*sender = u.pid;
	}
	return 0;
}

/* Make a socket and bind(2) or connect(2) it to "start". A socket's name has 107 bytes, and the
 * directory's path may be longer. */
static int open_start(int dir, int (*use)(int fd, const struct sockaddr *a, socklen_t size))
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/start", dir);
	if (fd < 0 || use(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return take_fd(&fd);
}

int talk_listen(int dir)
{
	auto_close int fd = open_start(dir, bind);

	if (fd >= 0 && listen(fd, 8) < 0)
		return -errno;
	return take_fd(&fd);
}

int talk_call(int dir)
{
	return open_start(dir, connect);
}
