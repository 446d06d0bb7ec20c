#include "runtime/squash.h"

#include "base/machine.h"
#include "base/program.h"
#include "runtime/runtime.h"

#include <sys/mount.h>
#include <sys/socket.h>

#define PROGRAM "mlrun-squashfuse"

static int start_server(const struct plan *p, int image, int sock, struct mlr_error *err)
{
	auto_free char *path = program_path(PROGRAM);
	const char *search = plan_env_get(p, "PATH");
	char uid[16], gid[16];
	const char *command = plan_program(p);
	char *const argv[] = { (char *)PROGRAM, p->part ? p->part : (char *)"", uid, gid,
		(char *)command, (char *)(search ? search : ""), NULL };
	int r;

	snprintf(uid, sizeof(uid), "%u", (unsigned)p->id.uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)p->id.gid);
	r = program_serve(path, argv, sock, image);
	if (r == -ENOENT && access(path, F_OK) < 0) {
		mlr_fail(err, ENOSYS, "this mlrun has no '%s', which serves squashfs images", path);
		return mlr_hint(
			err, "mlrun pull --format=dir IMAGE keeps the image as a tree of files");
	}
	return mlr_result(err, r, "start '%s' to serve the image", path);
}

/* Stay on this CPU: the kernel may have moved us while the server was started. Best effort, since
 * this only saves time. */
static void pin(struct squash_server *server)
{
	int cpu = sched_getcpu();
	cpu_set_t one;

	if (cpu < 0 || cpu >= CPU_SETSIZE ||
		sched_getaffinity(0, sizeof(server->cpus), &server->cpus) < 0)
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) == 0)
		server->cpu = cpu;
}

int squash_start(const struct plan *p, struct squash_share *share, struct squash_server *ret,
	struct mlr_error *err)
{
	auto_close int image = open(p->squashfs, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_close int mine = -1, its = -1;
	struct stat st;
	int pair[2], r;

	if (image < 0 || fstat(image, &st) < 0) {
		r = mlr_fail_errno(err, "open the image's file '%s'", p->squashfs);
		/* A file that the caller names was there a moment ago; this is a store's. */
		return r == -ENOENT || r == -ESTALE ? mlr_hint(err, "mlrun pull fetches it again")
						    : r;
	}
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return mlr_fail(err, EINVAL, "the image's file '%s' is not a file", p->squashfs);
	ret->share = share;
	if (squash_share_find(p, &st, share))
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return mlr_fail_errno(err, "make a socket pair");
	mine = pair[0];
	its = pair[1];
	TRY(start_server(p, image, its, err));
	if (!(p->namespaces & PLAN_NS_PID)) /* else another process makes the container */
		pin(ret);
	ret->sock = take_fd(&mine);
	return 0;
}

int squash_wait(const struct plan *p, const struct squash_server *server, struct mlr_error *err)
{
	char text[256] = "";
	int resets = 0;
	ssize_t n;

	if (server->sock < 0)
		return 0;
	/* A server that refused the image ends before it reads /dev/fuse. The socket reports that
	 * first, and its message afterwards. */
	do
		n = recv(server->sock, text, sizeof(text) - 1, 0);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (n < 0)
		return mlr_fail_errno(err, "ask the server of '%s'", p->squashfs);
	if (n == 0)
		return mlr_fail(err, EIO, "the server of '%s' has ended", p->squashfs);
	return *text ? mlr_fail(err, EPROTO, "'%s': %s", p->squashfs, text) : 0;
}

static int hand_over(const struct squash_server *server, int fuse, struct mlr_error *err)
{
	ssize_t n = fds_send(server->sock, &server->cpu, sizeof(server->cpu), fuse);

	/* The server refused the image and ended: squash_wait() gets the reason. */
	if (n < 0 && n != -EPIPE && n != -ECONNRESET)
		return mlr_result(err, (int)n, "hand /dev/fuse to the image's server");
	return 0;
}

/* Open /dev/fuse in the user namespace that mounts, as FUSE requires. */
static int open_fuse(const struct plan *p, struct mlr_error *err)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), code = errno;

	if (fd >= 0)
		return fd;
	mlr_fail(err, code, "open /dev/fuse, through which squashfs images are served: %s",
		strerror(code));
	mlr_hint(err, "an administrator can %s; or %s",
		code == EACCES || code == EPERM ? "allow it: chmod 0666 /dev/fuse"
						: "load it: modprobe fuse",
		p->as_trees);
	return -code;
}

int squash_mount(const struct plan *p, const struct squash_server *server, const char *dir,
	struct mlr_error *err)
{
	const struct squash_share *s = server->share;
	auto_free char *options = NULL;
	auto_close int fuse = -1;

	if (s->mount >= 0)
		return move_mount(s->mount, "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH) < 0
			? mlr_fail_errno(err, "mount the image '%s', which is shared", p->squashfs)
			: 0;
	fuse = open_fuse(p, err);
	if (fuse < 0)
		return fuse;
	options = xasprintf(
		"fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,default_permissions", fuse,
		(unsigned)p->id.uid, (unsigned)p->id.gid);
	if (mount(*s->source ? s->source : "mlrun-squashfuse", dir, "fuse",
		    MS_NOSUID | MS_NODEV | MS_RDONLY, options) < 0) {
		int r = mlr_fail_errno(err, "mount the image '%s' through FUSE", p->squashfs);

		runtime_hint_userns("/", err);
		return r;
	}
	return hand_over(server, fuse, err);
}

static int open_program(int root, const char *path)
{
	return file_open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

int squash_open_command(const struct plan *p, int root)
{
	const char *command = plan_program(p), *path = plan_env_get(p, "PATH");

	if (command && strchr(command, '/'))
		return open_program(root, command);
	while (command && path && *path) {
		size_t len = strcspn(path, ":");
		auto_free char *file = xasprintf("%.*s/%s", (int)len, path, command);
		int fd = open_program(root, file);

		if (fd != -ENOENT && fd != -ENOTDIR)
			return fd;
		path += len + (path[len] == ':');
	}
	return -ENOENT;
}

void squash_look_at_loader(int root, int command)
{
	char head[ELF_HEAD], loader[PATH_MAX];
	const char *const paths[] = { loader, "/etc/ld.so.cache" };
	struct stat st;
	ssize_t n;

	if (command < 0 || fstat(command, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	n = pread(command, head, sizeof(head), 0);
	if (n <= 0 || !elf_interpreter(head, (size_t)n, loader))
		return;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		int fd = file_open_in_root(root, paths[i], O_PATH, 0);

		fd_close(&fd);
	}
}

void squash_done(struct squash_server *server)
{
	if (server->cpu >= 0)
		sched_setaffinity(0, sizeof(server->cpus), &server->cpus);
	fd_close(&server->sock);
	*server = (struct squash_server)SQUASH_SERVER_INIT;
}
