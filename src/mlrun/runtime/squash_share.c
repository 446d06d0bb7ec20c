/*
 * The mount is cloned in a child, since entering a user namespace cannot be undone: if it fails,
 * the caller can still make namespaces of its own. The child shares the caller's memory and
 * descriptors, and ends at once.
 */
#include "runtime/squash_share.h"

#include "base/proc.h"
#include "runtime/door.h"
#include "runtime/mountinfo.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/vfs.h>

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
	while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
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
