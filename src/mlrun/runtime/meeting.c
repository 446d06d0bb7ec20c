#include "runtime/meeting.h"

#include "base/proc.h"

#include <sys/file.h>

#define LIST_MAX  (1u << 20) /* bytes of a list */
#define LIST_LONG 500        /* lines; longer lists should lose their dead processes */
#define SWEEP_MAX 16         /* files that one start examines for removal */

void meeting_list_done(struct meeting_list *l)
{
	free(l->v);
	*l = (struct meeting_list){ 0 };
}

size_t meeting_entry_parse(const char *text, struct meeting_entry *ret)
{
	struct meeting_entry e;
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

static int list_read(int file, struct meeting_list *ret, struct mlr_error *err)
{
	auto_call(meeting_list_done) struct meeting_list l = { 0 };
	auto_free char *text = NULL;
	struct stat st;
	ssize_t len;

	if (fstat(file, &st) < 0)
		return mlr_fail_errno(err, "the list of processes");
	if (st.st_size > LIST_MAX)
		return mlr_fail(
			err, EFBIG, "the list of processes is larger than %u bytes", LIST_MAX);
	text = xmalloc((size_t)st.st_size + 1);
	len = pread(file, text, (size_t)st.st_size, 0);
	if (len < 0)
		return mlr_fail_errno(err, "read the list of processes");
	text[len] = '\0';
	for (const char *s = text; *s;) {
		struct meeting_entry e;
		size_t used = meeting_entry_parse(s, &e);

		if (used == 0)
			break;
		s += used;
		*xadd(l.v, l.n) = e;
	}
	*ret = take_struct(&l, { 0 });
	return 0;
}

static int lives(int proc, const struct meeting_entry *e)
{
	struct proc_stat st;

	return proc_stat_of(proc, (pid_t)e->pid, &st) == 0 && st.start == e->start;
}

static int anybody_lives(int proc, const struct meeting_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (lives(proc, &l->v[i]))
			return 1;
	return 0;
}

/* --- the file ------------------------------------------------------------------------ */

/*
 * The word means one thing only among processes that see the same processes, files and users, and
 * hosts with several PID namespaces may share /dev/shm. The PID namespace comes last in the name,
 * for meeting_sweep().
 */
static int name_of(int proc, const struct container_keys *k, char name[MEETING_NAME_SIZE],
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
	snprintf(name, MEETING_NAME_SIZE, "%.32s.%lu", hex, (unsigned long)pid.st_ino);
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

/* Lock the file. Returns 1 if it is locked; a file that was removed meanwhile does not count. */
static int locked(int fd, int how)
{
	struct stat st;

	return flock(fd, how | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int meeting_open(const struct container_keys *k, struct meeting *ret, struct mlr_error *err)
{
	auto_call(meeting_done) struct meeting m = MEETING_INIT;

	m.dir = meeting_dir_open(err);
	if (m.dir < 0)
		return m.dir;
	m.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m.proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	TRY(name_of(m.proc, k, m.name, err));
	*ret = take_struct(&m, MEETING_INIT);
	return 0;
}

/* Wait by polling, with a time limit: a timer would be the caller's own, as alarms survive
 * execve(2). */
static int lock(struct meeting *m, enum meeting_lock how, long wait_ms, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + wait_ms, pause = 100;

	fd_close(&m->file);
	for (;;) {
		auto_close int fd = open_file(m->dir, m->name, O_CREAT);

		if (fd < 0)
			return mlr_result(err, fd, "open '%s'", m->name);
		if (locked(fd, how == MEETING_ALONE ? LOCK_EX : LOCK_SH)) {
			m->file = take_fd(&fd);
			return 0;
		}
		if (mlr_now_ms() > end) {
			mlr_fail(err, ETIMEDOUT,
				"another process has been making the container for %ld s",
				wait_ms / 1000);
			return mlr_hint(err, "fuser " MEETING_PLACE "/mlrun-%u*/%s shows which",
				(unsigned)geteuid(), m->name);
		}
		mlr_sleep_us(pause);
		pause = pause < 4000 ? pause * 3 / 2 : pause;
	}
}

int meeting_drop_dead(const struct meeting *m, const struct meeting_list *l, struct mlr_error *err)
{
	auto_free char *text = xmalloc(l->n * 80 + 1);
	char *end = text;
	int r;

	for (size_t i = 0; i < l->n; i++)
		if (lives(m->proc, &l->v[i]))
			end += sprintf(
				end, "%ld %llu %s\n", l->v[i].pid, l->v[i].start, l->v[i].inside);
	if (ftruncate(m->file, 0) < 0)
		return mlr_fail_errno(err, "empty the list of processes");
	r = file_write_all(m->file, text, (size_t)(end - text)); /* O_APPEND */
	return mlr_result(err, r, "write the list of processes");
}

int meeting_lock(struct meeting *m, enum meeting_lock how, long wait_ms, struct meeting_list *ret,
	struct mlr_error *err)
{
	TRY(lock(m, how, wait_ms, err));
	TRY(list_read(m->file, ret, err));
	if (ret->n <= LIST_LONG)
		return 0;
	if (how == MEETING_ALONE)
		return meeting_drop_dead(m, ret, err);
	meeting_list_done(ret);
	return 0;
}

void meeting_unlock(const struct meeting *m)
{
	flock(m->file, LOCK_UN);
}

int meeting_use_any(
	const struct meeting_list *l, meeting_use *use, void *ctx, long wait_ms, long *pid)
{
	int64_t end = mlr_now_ms() + wait_ms, pause = 50;
	long shut;

	for (;; mlr_sleep_us(pause), pause = pause < 2000 ? pause * 2 : pause) {
		shut = 0;
		for (size_t i = 0; i < l->n; i++) {
			int r = use(ctx, &l->v[i]);

			*pid = l->v[i].pid;
			if (r == 0)
				return 1;
			if (r == -ENOTRECOVERABLE)
				return r;
			if (r == -EPERM)
				shut = *pid;
		}
		*pid = shut;
		if (!shut)
			return 0;
		if (mlr_now_ms() > end)
			return -EPERM;
	}
}

int meeting_add(const struct meeting *m, const char *inside, struct mlr_error *err)
{
	struct proc_stat self;
	char line[80];
	int n;

	TRY(mlr_result(
		err, proc_stat_read(m->proc, "self/stat", &self), "look at /proc/self/stat"));
	n = snprintf(line, sizeof(line), "%ld %llu %s\n", (long)self.pid, self.start, inside);
	if (write(m->file, line, (size_t)n) != n) /* O_APPEND */
		return mlr_fail_errno(err, "write the list of processes that share a container");
	return 0;
}

/* Only files of this PID namespace, whose pids can be checked. */
void meeting_sweep(const struct meeting *m)
{
	auto_dir DIR *d = file_open_dir(m->dir, ".", 0);
	const struct dirent *e;
	int looked = 0;

	while (d && looked < SWEEP_MAX && (e = readdir(d))) {
		auto_call(meeting_list_done) struct meeting_list l = { 0 };
		auto_close int file = -1;

		if (strlen(e->d_name) < 33 || strcmp(e->d_name + 32, m->name + 32) != 0 ||
			strcmp(e->d_name, m->name) == 0)
			continue;
		looked++;
		file = open_file(m->dir, e->d_name, 0);
		if (file >= 0 && locked(file, LOCK_EX) && list_read(file, &l, NULL) == 0 &&
			!anybody_lives(m->proc, &l))
			unlinkat(m->dir, e->d_name, 0);
	}
}

void meeting_done(struct meeting *m)
{
	fd_close(&m->file);
	if (m->dir >= 0)
		close(m->dir);
	fd_close(&m->proc);
	*m = (struct meeting)MEETING_INIT;
}
