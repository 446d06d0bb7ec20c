/*
 * mlrun-squashfuse: serves one squashfs image to one container. Started by runtime/squash.c outside
 * the container's namespaces, with nothing of the caller's but
 *
 *   3  a socket: we send a byte 0, or what is wrong with the image; the descriptor of /dev/fuse
 *      comes back, mounted, and nothing when the container could not be made
 *   4  the image
 *
 *   mlrun-squashfuse UID GID     whom files are said to belong to
 *
 * Ends when the mount does, with the container's last process.
 */
#include "runtime/squashfuse_image.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOCKET      3
#define IMAGE       4
#define THREADS_MAX 16

/* A signal to the job is for the command, which may need its files to end well. */
static void ignore_signals(void)
{
	static const int all[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2,
		SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		signal(all[i], SIG_IGN);
}

/*
 * From here on no file can be opened, whatever a hostile image makes of the code that reads it
 * (landlock(7)). A kernel without it does without.
 */
static void lock_down(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs =
			(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1 }; /* the rights of its first version */
	struct rlimit none = { 0, 0 };
	int fd;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd >= 0) {
		syscall(SYS_landlock_restrict_self, fd, 0);
		close(fd);
	}
}

/* The descriptor that the other side sends, or -1. */
static int receive(void)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	ssize_t n;
	int fd;

	do
		n = recvmsg(SOCKET, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static unsigned threads(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return n < 2 ? 2 : n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

static int serve(int fuse)
{
	struct fuse_loop_config *cfg = fuse_loop_cfg_create();
	char *argv[] = { (char *)"mlrun-squashfuse", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *se =
		fuse_session_new(&args, &image_operations, sizeof(image_operations), NULL);
	char place[32];
	int r = -1;

	snprintf(place, sizeof(place), "/dev/fd/%d", fuse); /* libfuse: it is mounted already */
	if (se && cfg && fuse_session_mount(se, place) == 0) {
		fuse_loop_cfg_set_max_threads(cfg, threads());
		fuse_loop_cfg_set_idle_threads(cfg, threads());
		lock_down();
		r = fuse_session_loop_mt(se, cfg);
	}
	return r == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct image_owner owner;
	const char *why = "";
	int fuse;

	if (argc != 3) {
		fprintf(stderr, "mlrun: this program is a part of mlrun: type mlrun exec IMAGE\n");
		return 125;
	}
	owner.uid = (uid_t)strtoul(argv[1], NULL, 10);
	owner.gid = (gid_t)strtoul(argv[2], NULL, 10);
	ignore_signals();
	if (image_use(IMAGE, &owner, &why) == 0)
		why = "";
	if (send(SOCKET, why, strlen(why) + 1, MSG_NOSIGNAL) < 0 || *why)
		return 125;
	fuse = receive();
	close(SOCKET);
	return fuse < 0 ? 0 : serve(fuse);
}
