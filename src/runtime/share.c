#include "runtime/share.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "runtime/door.h"
#include "runtime/userns.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PLACE     "/dev/shm"
#define NAME_SIZE 64
#define LIST_MAX  (1u << 20) /* bytes of a list */
#define LIST_LONG (16u << 10) /* from here on the dead are taken out */
#define SWEEP_MAX 16 /* files that one start looks at to remove them */

#define LOCK_WAIT_MS 60000 /* for somebody who makes a container */
#define DOOR_WAIT_MS 10000 /* for a process that has yet to execute its command */

struct list {
	struct share_entry *v;
	size_t n;
};

static void list_done(struct list *l)
{
	free(l->v);
}

size_t share_entry_parse(const char *text, struct share_entry *ret)
{
	struct share_entry e;
	size_t len = strcspn(text, "\n");
	char *end;

	if (text[len] != '\n' || !isdigit((unsigned char)text[0]))
		return 0;
	errno = 0;
	e.pid = strtol(text, &end, 10);
	if (errno || e.pid <= 0 || e.pid > INT32_MAX || *end != ' ' ||
		!isdigit((unsigned char)end[1]))
		return 0;
	e.start = strtoull(end + 1, &end, 10);
	if (errno || *end != ' ' || end + CONTAINER_KEY_SIZE != text + len ||
		strspn(end + 1, "0123456789abcdef") != CONTAINER_KEY_SIZE - 1)
		return 0;
	memcpy(e.inside, end + 1, CONTAINER_KEY_SIZE - 1);
	e.inside[CONTAINER_KEY_SIZE - 1] = '\0';
	*ret = e;
	return len + 1;
}

/* What is no line ends the list: one who writes it dies or another does, but none of ours. */
static int list_read(int file, struct list *ret, struct mlr_error *err)
{
	auto_call(list_done) struct list l = { NULL, 0 };
	auto_free char *text = NULL;
	struct stat st;
	ssize_t len;

	if (fstat(file, &st) < 0)
		return mlr_fail_errno(err, "the list of processes");
	if (st.st_size > LIST_MAX)
		return mlr_fail(err, EFBIG, "the list of processes is larger than %u bytes", LIST_MAX);
	text = xmalloc((size_t)st.st_size + 1);
	len = pread(file, text, (size_t)st.st_size, 0);
	if (len < 0)
		return mlr_fail_errno(err, "read the list of processes");
	text[len] = '\0';
	for (const char *s = text; *s;) {
		struct share_entry e;
		size_t used = share_entry_parse(s, &e);

		if (used == 0)
			break;
		s += used;
		l.v = xreallocarray(l.v, l.n + 1, sizeof(*l.v));
		l.v[l.n++] = e;
	}
	*ret = l;
	l = (struct list){ NULL, 0 };
	return 0;
}

static int lives(int proc, const struct share_entry *e)
{
	struct proc_stat st;
	char name[40];

	snprintf(name, sizeof(name), "%ld/stat", e->pid);
	return proc_stat_read(proc, name, &st) == 0 && st.start == e->start;
}

static int anybody_lives(int proc, const struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (lives(proc, &l->v[i]))
			return 1;
	return 0;
}

/* Under the exclusive lock: leave only those who live. */
static int drop_dead(struct share *s, const struct list *l, struct mlr_error *err)
{
	auto_free char *text = xmalloc(l->n * 80 + 1);
	char *end = text;
	int r;

	for (size_t i = 0; i < l->n; i++)
		if (lives(s->proc, &l->v[i]))
			end += sprintf(end, "%ld %llu %s\n", l->v[i].pid, l->v[i].start,
				l->v[i].inside);
	if (ftruncate(s->file, 0) < 0)
		return mlr_fail_errno(err, "empty the list of processes");
	r = file_write_all(s->file, text, (size_t)(end - text)); /* O_APPEND */
	return r < 0 ? mlr_fail(err, -r, "write the list of processes: %s", strerror(-r)) : 0;
}

static void pause_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- the meeting place ---------------------------------------------------------------- */

/* Others may make a directory of that name as well. */
static int open_dir(struct mlr_error *err)
{
	auto_free char *path = xasprintf(PLACE "/mlrun-%u", (unsigned)geteuid());
	auto_close int fd = -1;
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "make the directory '%s', where processes that share "
			"a container meet", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "open the directory '%s', where processes that share "
			"a container meet", path);
	if (st.st_uid != geteuid() || (st.st_mode & 07777) != 0700) {
		mlr_fail(err, EPERM,
			"the directory '%s', where processes that share a container meet, is not this "
			"user's alone: owner %u, mode %04o", path, (unsigned)st.st_uid,
			(unsigned)st.st_mode & 07777);
		return mlr_hint(err, st.st_uid == geteuid()
			? "chmod 0700 '%s'" : "an administrator can remove it: rm -r '%s'", path);
	}
	return take_fd(&fd);
}

/*
 * One word means one thing only among processes that see the same processes, files and users: hosts of
 * several PID namespaces may share /dev/shm. The PID namespace comes last, for sweep().
 */
static int name_of(int proc, const struct container_keys *k, char name[NAME_SIZE],
	struct mlr_error *err)
{
	struct stat user, mnt, pid;
	char text[128], hex[HASH_HEX_SIZE];

	if (fstatat(proc, "self/ns/user", &user, 0) < 0 ||
		fstatat(proc, "self/ns/mnt", &mnt, 0) < 0 ||
		fstatat(proc, "self/ns/pid", &pid, 0) < 0)
		return mlr_fail_errno(err, "/proc/self/ns");
	snprintf(text, sizeof(text), "%s %lu %lu", k->word, (unsigned long)user.st_ino,
		(unsigned long)mnt.st_ino);
	hash_name(text, hex);
	snprintf(name, NAME_SIZE, "%.32s.%lu", hex, (unsigned long)pid.st_ino);
	return 0;
}

static int open_file(int dir, const char *name, int flags)
{
	auto_close int fd = openat(dir, name,
		O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	return take_fd(&fd);
}

/* A lock on a file that was removed meanwhile keeps nobody away. Returns 1 when it is had. */
static int locked(int fd, int how)
{
	struct stat st;

	return flock(fd, how | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/*
 * Open and lock the file. The wait has an end, and is one of many short ones, since a timer would have to
 * be the caller's own: alarms outlive execve(2).
 */
static int lock(int dir, const char *name, int how, int *ret, struct mlr_error *err)
{
	long end = now_ms() + LOCK_WAIT_MS, pause = 100;

	for (;;) {
		auto_close int fd = open_file(dir, name, O_CREAT);

		if (fd < 0)
			return mlr_fail(err, -fd, "open '%s': %s", name, strerror(-fd));
		if (locked(fd, how)) {
			*ret = take_fd(&fd);
			return 0;
		}
		if (now_ms() > end) {
			mlr_fail(err, ETIMEDOUT,
				"another process has been making the container for %d s",
				LOCK_WAIT_MS / 1000);
			return mlr_hint(err, "fuser " PLACE "/mlrun-%u/%s tells which",
				(unsigned)geteuid(), name);
		}
		pause_us(pause);
		pause = pause < 4000 ? pause * 3 / 2 : pause;
	}
}

/* Remove some files that name nobody alive, of this PID namespace, in which pids can be judged. */
static void sweep(int dir, int proc, const char *own)
{
	DIR *d = file_open_dir(dir, ".", 0);
	int looked = 0;
	const struct dirent *e;

	while (d && looked < SWEEP_MAX && (e = readdir(d))) {
		auto_call(list_done) struct list l = { NULL, 0 };
		auto_close int file = -1;

		if (strlen(e->d_name) < 33 || strcmp(e->d_name + 32, own + 32) != 0 ||
			strcmp(e->d_name, own) == 0)
			continue;
		looked++;
		file = open_file(dir, e->d_name, 0);
		if (file >= 0 && locked(file, LOCK_EX) && list_read(file, &l, NULL) == 0 &&
			!anybody_lives(proc, &l))
			unlinkat(dir, e->d_name, 0);
	}
	if (d)
		closedir(d);
}

/* --- the way in ------------------------------------------------------------------------- */

/* Is what the list says of a process true? Whoever lies there would lead us into a root of his own. */
static int check(const struct share *s, const struct share_entry *e, int inside)
{
	auto_call(container_done) struct container c = CONTAINER_INIT;
	int r = container_look(s->proc, (pid_t)e->pid, &c);

	if (r < 0)
		return r;
	if (strcmp(c.keys.word, s->keys.word) != 0 ||
		(inside && strcmp(c.keys.inside, s->keys.inside) != 0))
		return -ENOENT;
	return 0;
}

/* Returns 0: entered; -EPERM: alive, but shut; anything else: no door. */
static int try_door(const struct share *s, const struct share_entry *e, int namespaces)
{
	auto_call(door_close) struct door d = DOOR_INIT;
	struct mlr_error err;
	int r = door_open(s->proc, (pid_t)e->pid, &d);

	if (r < 0 || d.start != e->start)
		return -ESRCH;
	r = check(s, e, namespaces & CLONE_NEWNS);
	if (r == 0)
		r = door_enter(&d, namespaces, &err);
	if (r == -EACCES || r == -EPERM)
		return -EPERM;
	if (r < 0)
		mlr_debug("process %ld is no way into the container: %s", e->pid, strerror(-r));
	return r;
}

/*
 * Enter through the first process that lets us. One that has yet to execute its command is shut for some
 * microseconds, and waited for.
 *
 *   inside  enter the container; else only the user namespace, whichever container one is in
 *
 * Returns 1 when entered, 0 when nobody is there.
 */
static int enter_list(const struct share *s, const struct list *l, int inside, int namespaces,
	struct mlr_error *err)
{
	long end = now_ms() + DOOR_WAIT_MS, pause = 50, shut;

	for (;; pause_us(pause), pause = pause < 2000 ? pause * 2 : pause) {
		shut = 0;
		for (size_t i = 0; i < l->n; i++) {
			int r;

			if (inside && strcmp(l->v[i].inside, s->keys.inside) != 0)
				continue;
			r = try_door(s, &l->v[i], namespaces);
			if (r == 0)
				return 1;
			if (r == -ENOTRECOVERABLE)
				return mlr_fail(err, ENOTRECOVERABLE,
					"enter the namespaces of process %ld", l->v[i].pid);
			if (r == -EPERM)
				shut = l->v[i].pid;
		}
		if (!shut)
			return 0;
		if (now_ms() > end)
			return mlr_fail(err, EPERM,
				"nobody can enter the container through process %ld, whose program "
				"is another user's and may not be read", shut);
	}
}

/* Under the lock: enter the container; with the exclusive one, if nobody is in it, the others' user
 * namespace. */
static int try_enter(const struct plan *p, struct share *s, int exclusive, struct mlr_error *err)
{
	auto_call(list_done) struct list l = { NULL, 0 };
	int r = list_read(s->file, &l, err);

	if (r < 0)
		return r;
	if (exclusive && l.n * CONTAINER_KEY_SIZE > LIST_LONG) {
		r = drop_dead(s, &l, err);
		if (r < 0)
			return r;
	}
	if (!exclusive && l.n * CONTAINER_KEY_SIZE > LIST_LONG)
		return 0;
	r = enter_list(s, &l, 1, CLONE_NEWUSER | CLONE_NEWNS | userns_clone_flags(p->namespaces), err);
	if (r != 0 || !exclusive)
		return r;
	r = enter_list(s, &l, 0, CLONE_NEWUSER, err);
	if (r < 0)
		return r;
	s->in_user_namespace = r;
	s->made = 1;
	return r == 0 ? drop_dead(s, &l, err) : 0;
}

static int enter(const struct plan *p, struct share *s, struct mlr_error *err)
{
	auto_close int dir = open_dir(err);
	char name[NAME_SIZE];
	int r;

	if (dir < 0)
		return dir;
	s->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	container_keys(p, &s->keys);
	r = name_of(s->proc, &s->keys, name, err);
	if (r < 0)
		return r;
	/* Those who find the container there do not wait for each other. */
	r = lock(dir, name, LOCK_SH, &s->file, err);
	if (r == 0)
		r = try_enter(p, s, 0, err);
	if (r != 0)
		return r;
	close(take_fd(&s->file));
	r = lock(dir, name, LOCK_EX, &s->file, err);
	if (r == 0)
		r = try_enter(p, s, 1, err);
	if (r == 0)
		sweep(dir, s->proc, name);
	return r;
}

int share_enter(const struct plan *p, struct share *ret, struct mlr_error *err)
{
	auto_call(share_done) struct share s = SHARE_INIT;
	int r;

	if (!p->share)
		return SHARE_NOBODY;
	r = enter(p, &s, err);
	if (r < 0) {
		mlr_wrap(err, "share a container ('%s')", p->share);
		return strstr(err->text, "\nhint: ")
			? r : mlr_hint(err, "--mpi=none makes one for this process alone");
	}
	*ret = s;
	s = (struct share)SHARE_INIT;
	if (r == 0)
		return SHARE_NOBODY;
	return p->namespaces & PLAN_NS_PID ? SHARE_ENTERED_PID : SHARE_ENTERED;
}

int share_open(struct share *s, struct mlr_error *err)
{
	struct proc_stat self;
	char line[80];
	int n, r;

	if (s->file < 0)
		return 0;
	/* By the host's /proc: the pid there, whatever getpid(2) says in here. */
	r = proc_stat_read(s->proc, "self/stat", &self);
	if (r < 0)
		return mlr_fail(err, -r, "look at /proc/self/stat: %s", strerror(-r));
	n = snprintf(line, sizeof(line), "%ld %llu %s\n", (long)self.pid, self.start, s->keys.inside);
	if (write(s->file, line, (size_t)n) != n)
		return mlr_fail_errno(err, "write the list of processes that share a container");
	if (s->made)
		s->file = -1; /* execve(2) closes and so unlocks it */
	share_done(s);
	return 0;
}

void share_done(struct share *s)
{
	if (s->file >= 0)
		close(s->file);
	if (s->proc >= 0)
		close(s->proc);
	*s = (struct share)SHARE_INIT;
}

static int no_join(pid_t pid, int r, struct mlr_error *err)
{
	if (r == -ENOENT) {
		mlr_fail(err, EINVAL, "process %ld is in no container of mlrun's", (long)pid);
		return mlr_hint(err, "mlrun ps lists those that are");
	}
	if (r == -ESRCH)
		return mlr_fail(err, ESRCH, "there is no process %ld", (long)pid);
	if (r == -EACCES || r == -EPERM)
		return mlr_fail(err, EPERM,
			"process %ld may not be looked at: it or its program is another user's", (long)pid);
	return mlr_fail(err, -r, "process %ld: %s", (long)pid, strerror(-r));
}

int share_join(pid_t pid, struct mlr_error *err)
{
	auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_call(container_done) struct container c = CONTAINER_INIT;
	auto_call(door_close) struct door d = DOOR_INIT;
	int r, namespaces;

	if (proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	r = door_open(proc, pid, &d);
	if (r == 0)
		r = container_look(proc, pid, &c);
	if (r < 0)
		return no_join(pid, r, err);
	namespaces = door_differs(&d);
	if (namespaces < 0)
		return no_join(pid, namespaces, err);
	r = door_enter(&d, namespaces, err);
	if (r < 0)
		return r == -EPERM ? no_join(pid, r, err) : r;
	return namespaces & CLONE_NEWPID ? SHARE_ENTERED_PID : SHARE_ENTERED;
}
