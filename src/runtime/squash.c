#include "runtime/squash.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/program.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "mlrun-squashfuse"

/* What the server is started with, made before the fork. */
struct start {
	const char *path;
	char uid[16], gid[16];
	int image, sock;
};

/* Tell the caller by the socket and end. */
__attribute__((noreturn)) static void give_up(int sock, const char *what)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));

	(void)!send(sock, text, (size_t)n + 1, MSG_NOSIGNAL);
	_exit(125);
}

/* In the grandchild: become the server. */
__attribute__((noreturn)) static void become_server(const struct start *s)
{
	char *const argv[] = { (char *)PROGRAM, (char *)s->uid, (char *)s->gid, NULL };
	char *const envp[] = { NULL };
	/* Out of the way of 0 to 4, where they and others go. */
	int sock = fcntl(s->sock, F_DUPFD_CLOEXEC, 10), image = fcntl(s->image, F_DUPFD_CLOEXEC, 10),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (sock < 0 || image < 0 || null < 0)
		give_up(s->sock, "descriptors of " PROGRAM);
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			give_up(sock, "descriptors of " PROGRAM);
	if (dup2(sock, 3) < 0 || dup2(image, 4) < 0 || close_range(5, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		give_up(sock, "descriptors of " PROGRAM);
	if (chdir("/") < 0)
		give_up(3, "change to /");
	execve(s->path, argv, envp);
	give_up(3, "start " PROGRAM);
}

/* Two forks: the command must not find a child that it did not start. A session of its own, so that
 * no terminal's signals reach it. */
static int start_server(const struct start *s, struct mlr_error *err)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return mlr_fail_errno(err, "start a process to serve the image");
	if (pid == 0) {
		pid_t server;

		setsid();
		server = fork();
		if (server == 0)
			become_server(s);
		_exit(server < 0 ? 1 : 0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno == ECHILD) /* SIGCHLD came to us ignored; the socket tells as well */
			return 0;
		else if (errno != EINTR)
			return mlr_fail_errno(err, "start a process to serve the image");
	return status == 0 ? 0 : mlr_fail(err, EAGAIN, "start a process to serve the image");
}

int squash_start(const struct plan *p, struct mlr_error *err)
{
	auto_free char *path = program_path(PROGRAM);
	auto_close int image = open(p->squashfs, O_RDONLY | O_CLOEXEC), mine = -1, its = -1;
	struct start s = { .path = path };
	struct stat st;
	int pair[2], r;

	if (image < 0 || fstat(image, &st) < 0)
		return mlr_fail_errno(err, "open the image's file '%s'", p->squashfs);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return mlr_fail(err, EINVAL, "the image's file '%s' is no file", p->squashfs);
	if (access(path, X_OK) < 0) {
		mlr_fail(err, ENOSYS, "this mlrun has no '%s', which serves squashfs images", path);
		return mlr_hint(err, "mlrun pull --format=dir keeps the image as a tree of files");
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return mlr_fail_errno(err, "make a socket pair");
	mine = pair[0];
	its = pair[1];
	s.image = image;
	s.sock = its;
	snprintf(s.uid, sizeof(s.uid), "%u", (unsigned)p->id.uid);
	snprintf(s.gid, sizeof(s.gid), "%u", (unsigned)p->id.gid);
	r = start_server(&s, err);
	return r < 0 ? r : take_fd(&mine);
}

/* The server has looked at the image. */
static int hear(const struct plan *p, int sock, struct mlr_error *err)
{
	char text[256] = "";
	ssize_t n;

	do
		n = recv(sock, text, sizeof(text) - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return mlr_fail_errno(err, "ask the server of '%s'", p->squashfs);
	if (n == 0)
		return mlr_fail(err, EIO, "the server of '%s' has ended", p->squashfs);
	return *text ? mlr_fail(err, EPROTO, "'%s': %s", p->squashfs, text) : 0;
}

static int hand_over(int sock, int fuse, struct mlr_error *err)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fuse, sizeof(int));
	if (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		return mlr_fail_errno(err, "hand /dev/fuse to the image's server");
	return 0;
}

/* FUSE wants the device to be opened in the user namespace that mounts. */
static int open_fuse(struct mlr_error *err)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), code = errno;

	if (fd >= 0)
		return fd;
	mlr_fail(err, code, "open /dev/fuse, through which squashfs images are served: %s",
		strerror(code));
	if (code == EACCES || code == EPERM)
		mlr_hint(err,
			"an administrator can allow it: chmod 0666 /dev/fuse; or keep the image as a tree "
			"of files: mlrun pull --format=dir");
	else
		mlr_hint(err,
			"an administrator can load it: modprobe fuse; or keep the image as a tree of files: "
			"mlrun pull --format=dir");
	return -code;
}

int squash_mount(const struct plan *p, int sock, const char *dir, struct mlr_error *err)
{
	auto_free char *options = NULL;
	auto_close int fuse = open_fuse(err);
	int r;

	if (fuse < 0)
		return fuse;
	r = hear(p, sock, err);
	if (r < 0)
		return r;
	options = xasprintf("fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,default_permissions",
		fuse, (unsigned)p->id.uid, (unsigned)p->id.gid);
	if (mount("mlrun-squashfuse", dir, "fuse", MS_NOSUID | MS_NODEV | MS_RDONLY, options) < 0) {
		r = mlr_fail_errno(err, "mount the image '%s' through FUSE", p->squashfs);
		runtime_hint_userns("/", err);
		return r;
	}
	return hand_over(sock, fuse, err);
}
