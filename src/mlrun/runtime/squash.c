#include "runtime/squash.h"

#include "base/machine.h"
#include "base/proc.h"
#include "base/program.h"
#include "runtime/door.h"
#include "runtime/mountinfo.h"
#include "runtime/runtime.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>

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

/* --- one server for several containers --------------------------------------------- */

#define WAIT_MS     2000 /* for a container that is being made; then a server of its own */
#define STACK_BYTES (64u << 10)
#define CGROUP_MAX  (64u << 10) /* bytes */

/* All that must be equal in those who share a server. */
static void make_key(const struct plan *p, const struct stat *image, const char *cgroup, char *key)
{
	struct rlimit cpu = { 0 }, memory = { 0 };
	char hex[HASH_HEX_SIZE], *text = NULL;
	cpu_set_t cpus;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f) {
		mlr_oom();
		abort();
	}
	CPU_ZERO(&cpus);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	getrlimit(RLIMIT_CPU, &cpu);
	getrlimit(RLIMIT_AS, &memory);
	fprintf(f, "squashfs %u %u %u %u\n", (unsigned)p->id.uid, (unsigned)p->id.host_uid,
		(unsigned)p->id.gid, (unsigned)p->id.host_gid);
	fprintf(f, "%llu %llu %lld %lld.%ld %lld.%ld\n", (unsigned long long)image->st_dev,
		(unsigned long long)image->st_ino, (long long)image->st_size,
		(long long)image->st_mtim.tv_sec, image->st_mtim.tv_nsec,
		(long long)image->st_ctim.tv_sec, image->st_ctim.tv_nsec);
	fprintf(f, "%s\n", p->part ? p->part : "");
	fprintf(f, "%d %llu %llu\n%s", getpriority(PRIO_PROCESS, 0),
		(unsigned long long)cpu.rlim_max, (unsigned long long)memory.rlim_max, cgroup);
	fwrite(&cpus, 1, sizeof(cpus), f);
	if (fclose(f) != 0) {
		mlr_oom();
		abort();
	}
	hash_short(text, size, hex);
	memcpy(key, hex, CONTAINER_KEY_SIZE - 1);
	key[CONTAINER_KEY_SIZE - 1] = '\0';
	free(text);
}

/* --- cloning the mount ------------------------------------------------------------------ */

struct clone_job {
	struct squash_share *share;
	const struct door *door;
	int r;
};

/* Is this the image? Its containers cannot mount anything beneath their roots. */
static int is_image(const struct squash_share *s)
{
	auto_free char *text = NULL, *wanted = xasprintf(" - fuse %s ", s->source);

	return mountinfo_read(s->meeting.proc, "self/mountinfo", &text) == 0 &&
		strstr(text, wanted) && strchr(text, '\n') == text + strlen(text) - 1;
}

/* In a copy of the container's mounts, take off its root: the image is beneath. */
static int uncover(int proc)
{
	auto_close int own = -1;

	if (unshare(CLONE_NEWNS) < 0 || umount2("/", MNT_DETACH) < 0)
		return -errno;
	own = openat(proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	/* "/" becomes what is uppermost now. */
	return own < 0 || setns(own, CLONE_NEWNS) < 0 ? -errno : 0;
}

/* The child's main function. */
static int clone_mount(void *arg)
{
	struct clone_job *j = arg;
	struct squash_share *s = j->share;
	int proc = s->meeting.proc;
	struct statfs st;

	j->r = door_enter(j->door, CLONE_NEWUSER | CLONE_NEWNS, NULL);
	if (j->r == 0)
		j->r = uncover(proc);
	if (j->r == 0 && !is_image(s))
		j->r = -ENOENT;
	if (j->r < 0)
		return 0;
	/* Does the server live? This asks it, and FUSE answers only inside. */
	if (statfs("/", &st) < 0) {
		j->r = -errno;
		return 0;
	}
	/* Could the clone be attached, or does a sandbox forbid that? */
	if (move_mount(-1, "", -1, "", 0) < 0 && (errno == EPERM || errno == ENOSYS)) {
		j->r = -errno;
		return 0;
	}
	s->mount = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	s->userns = s->mount < 0 ? -1 : openat(proc, "self/ns/user", O_RDONLY | O_CLOEXEC);
	j->r = s->userns < 0 ? -errno : 0;
	return 0;
}

static int clone_in_child(struct clone_job *j)
{
	auto_free char *stack = xmalloc(STACK_BYTES);
	pid_t pid =
		clone(clone_mount, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES, j);

	if (pid < 0)
		return -errno;
	/* Without an exit signal it is no child of the command's, either. */
	(void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, __WCLONE));
	return j->r;
}

static void drop(struct squash_share *s)
{
	fd_close(&s->mount);
	if (s->userns >= 0)
		close(take_fd(&s->userns));
}

/* Is the process mlrun, and not a program that its user may not read? */
static int is_mlrun(int proc, long pid)
{
	char name[40], its[64], own[64];

	snprintf(name, sizeof(name), "%ld/comm", pid);
	return proc_read(proc, name, its, sizeof(its)) == 0 &&
		proc_read(proc, "self/comm", own, sizeof(own)) == 0 && strcmp(its, own) == 0;
}

/* Returns 0 if the process has executed its command; -EPERM if it will soon; -ESRCH; -EACCES. */
static int is_ready(int proc, long pid)
{
	struct stat its, own;
	char name[40];

	snprintf(name, sizeof(name), "%ld/ns/mnt", pid);
	if (fstatat(proc, name, &its, 0) < 0)
		return errno != EACCES ? -ESRCH : is_mlrun(proc, pid) ? -EPERM : -EACCES;
	if (fstatat(proc, "self/ns/mnt", &own, 0) < 0)
		return -errno;
	return its.st_ino == own.st_ino ? -EPERM : 0;
}

/* A meeting_use. */
static int try_container(void *ctx, const struct meeting_entry *e)
{
	struct squash_share *s = ctx;
	auto_call(door_close) struct door d = DOOR_INIT;
	struct clone_job j = { s, &d, -ECHILD };
	int r, dumpable = prctl(PR_GET_DUMPABLE);

	if (strcmp(e->inside, s->key) != 0)
		return -ENOENT;
	r = door_open(s->meeting.proc, (pid_t)e->pid, &d);
	if (r < 0 || d.start != e->start)
		return -ESRCH;
	TRY(is_ready(s->meeting.proc, e->pid));
	r = clone_in_child(&j);
	if (r == 0 && !container_is_users(s->meeting.proc, s->userns))
		r = -ENOENT;
	if (r == 0)
		return 0;
	drop(s);
	prctl(PR_SET_DUMPABLE, dumpable == 1); /* door_enter() has reset it for us, too */
	return r;
}

/* --- finding a container ---------------------------------------------------------------- */

static int try_list(struct squash_share *s, enum meeting_lock how)
{
	auto_call(meeting_list_done) struct meeting_list l = { 0 };
	long pid;
	int r;

	TRY(meeting_lock(&s->meeting, how, WAIT_MS, &l, NULL));
	r = meeting_use_any(&l, try_container, s, WAIT_MS, &pid);
	return r == 0 && how == MEETING_ALONE ? meeting_drop_dead(&s->meeting, &l, NULL) : r;
}

static int find(const struct plan *p, const struct stat *image, struct squash_share *s)
{
	auto_free char *cgroup = NULL;
	struct container_keys keys;
	int r;

	TRY(file_read(AT_FDCWD, "/proc/self/cgroup", CGROUP_MAX, &cgroup, NULL, NULL));
	make_key(p, image, cgroup, s->key);
	snprintf(s->source, sizeof(s->source), "mlrun-squashfuse@%s", s->key);
	strcpy(keys.word, s->key);
	TRY(meeting_open(&keys, &s->meeting, NULL));
	r = try_list(s, MEETING_SHARED);
	if (r != 0)
		return r;
	r = try_list(s, MEETING_ALONE);
	if (r != 0)
		return r;
	s->is_first = 1;
	mlr_debug("no container has the image's server yet");
	meeting_sweep(&s->meeting);
	return 0;
}

/* Processes of one user namespace may trace each other (ptrace(2)), so a confined one could act
 * through another; one with capabilities could mount over what others clone. */
static int is_confined(const struct plan *p)
{
	return p->seccomp || p->caps || (p->namespaces & (PLAN_NS_NET | PLAN_NS_IPC));
}

int squash_share_find(const struct plan *p, const struct stat *image, struct squash_share *ret)
{
	auto_call(squash_share_done) struct squash_share s = SQUASH_SHARE_INIT;
	int r;

	if (p->share || p->root == PLAN_ROOT_ITSELF || is_confined(p))
		return 0;
	/* Before Linux 5.2 nothing can be cloned: do not wait for others. */
	if (move_mount(-1, "", -1, "", 0) < 0 && errno == ENOSYS)
		return 0;
	r = find(p, image, &s);
	if (r < 0) {
		mlr_debug("the image gets a server of its own: %s", strerror(-r));
		return 0;
	}
	s.is_child = (p->namespaces & PLAN_NS_PID) != 0;
	if (r == 1) {
		/* Who comes now shall wait for this container, and not start a server because the
		 * one that the mount was cloned from has ended. */
		if (!s.is_child)
			meeting_add(&s.meeting, s.key, NULL);
		meeting_unlock(&s.meeting);
	}
	*ret = take_struct(&s, SQUASH_SHARE_INIT);
	return r;
}

void squash_share_open(struct squash_share *s)
{
	if (s->meeting.file < 0)
		return;
	/* In a new PID namespace it is not the process that was there before. */
	if (s->is_first || s->is_child)
		meeting_add(&s->meeting, s->key, NULL);
	/* execve(2) closes and unlocks the file of one who has started the server. */
	if (s->is_first)
		s->meeting.file = -1;
	squash_share_done(s);
}

void squash_share_done(struct squash_share *s)
{
	drop(s);
	meeting_done(&s->meeting);
	*s = (struct squash_share)SQUASH_SHARE_INIT;
}
