/*
 * refuse NAME=ERRNO... -- COMMAND ARG...: run a command whose system calls of these names fail so,
 * as on an older kernel ("openat2=ENOSYS") or in a sandbox. Unlike a preloaded library this also
 * reaches a program that is linked statically. "seccomp@3=ENOSYS" means calls whose first argument
 * is 3.
 *
 * refuse NAME[,NAME...]#N=ERRNO -- COMMAND ARG...: only the N-th of these calls fails (from 1), in
 * the order in which the command and what it starts make them; those of other programs do not
 * count, nor do writes to standard output and error. The file $REFUSED is made when it has come.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned nth; /* 0: all */
static int code;

static int number_of(const char *name)
{
	for (int n = 1; n < 134; n++) {
		const char *known = strerrorname_np(n);

		if (known && strcmp(known, name) == 0)
			return n;
	}
	return 0;
}

static void fail(const char *what)
{
	fprintf(stderr, "refuse: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void refuse(scmp_filter_ctx ctx, char *word)
{
	char *name = strsep(&word, "="), *first = strchr(name, '@'), *count = strchr(name, '#');
	char *names = name;
	const struct scmp_arg_cmp is =
		SCMP_A0(SCMP_CMP_EQ, first ? strtoull(first + 1, NULL, 10) : 0);

	code = word ? number_of(word) : 0;
	nth = count ? (unsigned)strtoul(count + 1, NULL, 10) : 0;
	name[strcspn(name, "@#")] = '\0';
	while ((name = strsep(&names, ","))) {
		int nr = seccomp_syscall_resolve_name(name);

		if (code == 0 || nr == __NR_SCMP_ERROR ||
			seccomp_rule_add_array(ctx,
				count ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO((uint32_t)code), nr,
				first ? 1 : 0, &is) < 0) {
			fprintf(stderr, "refuse: %s=%s: no system call or no error\n", name,
				word ? word : "");
			exit(2);
		}
	}
}

/* --- the N-th call ------------------------------------------------------------------------------
 */

static void pass(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(socket, &m, 0) != 1)
		fail("sendmsg");
}

static int take(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(socket, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		_exit(2);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static int counts(const struct seccomp_notif *call, const struct stat *program)
{
	int is_write = call->data.nr == seccomp_syscall_resolve_name("write") ||
		call->data.nr == seccomp_syscall_resolve_name("writev");
	struct stat exe;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", call->pid);
	return !(is_write && call->data.args[0] <= 2) && stat(path, &exe) == 0 &&
		exe.st_ino == program->st_ino && exe.st_dev == program->st_dev;
}

/* Answer until nobody has the filter any more. */
static void serve(int fd, const struct stat *program)
{
	struct seccomp_notif *call;
	struct seccomp_notif_resp *answer;
	const char *report = getenv("REFUSED");
	unsigned n = 0;

	seccomp_notify_alloc(&call, &answer);
	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };

		if (poll(&p, 1, -1) == 1 && (p.revents & POLLHUP))
			_exit(0);
		memset(call, 0, sizeof(*call));
		if (seccomp_notify_receive(fd, call) < 0)
			continue;
		memset(answer, 0, sizeof(*answer));
		answer->id = call->id;
		answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		if (counts(call, program) && ++n == nth) {
			answer->flags = 0;
			answer->error = -code;
			close(report ? open(report, O_WRONLY | O_CREAT, 0644) : -1);
		}
		seccomp_notify_respond(fd, answer);
	}
}

static void find(const char *command, struct stat *ret)
{
	const char *dirs = strchr(command, '/') ? "" : getenv("PATH");
	char path[PATH_MAX];

	for (; dirs; dirs = strchr(dirs, ':') ? strchr(dirs, ':') + 1 : NULL) {
		snprintf(path, sizeof(path), "%.*s%s%s", (int)strcspn(dirs, ":"), dirs,
			*dirs ? "/" : "", command);
		if (access(path, X_OK) == 0 && stat(path, ret) == 0)
			return;
	}
	fail(command);
}

/* Start what answers, out of the command's sight. Returns the socket for the filter's descriptor.
 */
static int begin(const char *command)
{
	struct stat program;
	int pair[2], null = open("/dev/null", O_RDWR);

	find(command, &program);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		fail("socketpair");
	if (fork() == 0) {
		if (setsid() < 0 || fork() != 0)
			_exit(0);
		for (int i = 0; i < 3; i++)
			dup2(null, i);
		dup2(pair[1], 3);
		close_range(4, ~0U, 0);
		serve(take(3), &program);
	}
	wait(NULL);
	close(null);
	close(pair[1]);
	return pair[0];
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int i = 1, server = -1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		refuse(ctx, argv[i]);
	if (i + 1 < argc && nth)
		server = begin(argv[i + 1]);
	if (i + 1 >= argc || seccomp_load(ctx) < 0) {
		fprintf(stderr, "usage: refuse NAME=ERRNO... -- COMMAND ARG...\n");
		return 2;
	}
	if (nth) {
		pass(server, seccomp_notify_fd(ctx));
		close(seccomp_notify_fd(ctx));
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 2;
}
