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
	int looked = 0;

	for (struct dirent *e; looked < SWEEP_MAX && (e = file_next(d));) {
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
	fd_close(&m->dir);
	fd_close(&m->proc);
	*m = (struct meeting)MEETING_INIT;
}

/* --- the directory ----------------------------------------------------------------- */

#define NAMES_MAX 8
#define NAME_SIZE 64
#define SETTLE_MS 20  /* two ticks of the slowest kernel's clock */
#define ROUNDS    200 /* looks at the links: four seconds in all */

/* "mlrun-1000", "mlrun-1000.1" */
static void plain_name(int i, char name[NAME_SIZE])
{
	int n = snprintf(name, NAME_SIZE, "mlrun-%u", (unsigned)geteuid());

	if (i > 0)
		snprintf(name + n, (size_t)(NAME_SIZE - n), ".%d", i);
}

/* Open a directory that the user owns and nobody else may write to. -EPERM if another user owns
 * it. */
static int open_own(int place, const char *name, struct mlr_error *err)
{
	auto_close int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : -EPERM;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid())
		return -EPERM;
	if ((st.st_mode & 07777) != 0700) {
		mlr_fail(err, EACCES,
			"the directory '" MEETING_PLACE
			"/%s', where processes that share a container meet, is open to others: mode %04o",
			name, (unsigned)st.st_mode & 07777);
		return mlr_hint(err, "chmod 0700 '" MEETING_PLACE "/%s'", name);
	}
	return take_fd(&fd);
}

/* Another user may have made a directory of that name, by intent or as root of its own user
 * namespace; then try the next name. An existing directory of our own comes before a free name.
 * -EPERM if all names are taken. */
static int open_plain(int place, struct mlr_error *err)
{
	char name[NAME_SIZE], unused[NAME_SIZE];

	for (int attempt = 0; attempt < NAMES_MAX; attempt++) {
		*unused = '\0';
		for (int i = 0; i < NAMES_MAX; i++) {
			int fd;

			plain_name(i, name);
			fd = open_own(place, name, err);
			if (fd >= 0 || fd == -EACCES)
				return fd;
			if (fd == -ENOENT && !*unused)
				strcpy(unused, name);
		}
		if (!*unused)
			break;
		if (mkdirat(place, unused, 0700) < 0 && errno != EEXIST)
			return mlr_fail_errno(err,
				"make the directory '" MEETING_PLACE
				"/%s', where processes that share a container meet",
				unused);
	}
	return -EPERM;
}

/* --- names that no one can guess ------------------------------------------------------ */

struct link {
	char name[NAME_SIZE]; /* "mlrun-1000@0123…"; empty: none */
	struct timespec made;
};

static int is_older(const struct link *a, const struct link *b)
{
	if (a->made.tv_sec != b->made.tv_sec)
		return a->made.tv_sec < b->made.tv_sec;
	if (a->made.tv_nsec != b->made.tv_nsec)
		return a->made.tv_nsec < b->made.tv_nsec;
	return strcmp(a->name, b->name) < 0;
}

/* The user's oldest link. */
static int find_link(int place, struct link *ret, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(place, ".", 0);
	char start[NAME_SIZE];
	int len = snprintf(start, sizeof(start), "mlrun-%u@", (unsigned)geteuid());

	*ret = (struct link){ .name = "" };
	if (!d)
		return mlr_fail_errno(err, "read '" MEETING_PLACE "'");
	for (struct dirent *e; (e = file_next(d));) {
		struct link l = { .name = "" };
		struct stat st;

		if (strncmp(e->d_name, start, (size_t)len) != 0 || strlen(e->d_name) >= NAME_SIZE ||
			fstatat(place, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISLNK(st.st_mode) || st.st_uid != geteuid())
			continue;
		strcpy(l.name, e->d_name);
		l.made = st.st_mtim;
		if (!*ret->name || is_older(&l, ret))
			*ret = l;
	}
	return 0;
}

/* "mlrun-1000.0123…" of "mlrun-1000@0123…" */
static void dir_of(const char *link, char dir[NAME_SIZE])
{
	strcpy(dir, link);
	*strchr(dir, '@') = '.';
}

static int make_dir(int place, char link[NAME_SIZE], struct mlr_error *err)
{
	char dir[NAME_SIZE], random[RANDOM_HEX_SIZE];

	random_hex(random);
	snprintf(link, NAME_SIZE, "mlrun-%u@%s", (unsigned)geteuid(), random);
	dir_of(link, dir);
	if (mkdirat(place, dir, 0700) < 0 || symlinkat(dir, place, link) < 0)
		return mlr_fail_errno(err,
			"make a directory in '" MEETING_PLACE
			"', where processes that share a container meet");
	return 0;
}

static void remove_dir(int place, const char *link)
{
	char dir[NAME_SIZE];

	dir_of(link, dir);
	unlinkat(place, link, 0);
	unlinkat(place, dir, AT_REMOVEDIR);
}

/* Can no link with the same time appear any more? */
static int is_settled(const struct link *l)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (now.tv_sec - l->made.tv_sec) * 1000 + (now.tv_nsec - l->made.tv_nsec) / 1000000 >=
		SETTLE_MS;
}

static void warn(void)
{
	mlr_warning(
		"others have made all of '" MEETING_PLACE
		"/mlrun-%u*', where processes that share a container meet; an administrator should remove "
		"them",
		(unsigned)geteuid());
}

static int open_secret(int place, struct mlr_error *err)
{
	char mine[NAME_SIZE] = "", dir[NAME_SIZE];
	struct link oldest;
	int r = 0, fd;

	for (int round = 0; round < ROUNDS; round++) {
		r = find_link(place, &oldest, err);
		if (r == 0 && !*oldest.name)
			r = make_dir(place, mine, err);
		TRY(r);
		if (!*oldest.name || !is_settled(&oldest)) {
			mlr_sleep_ms(SETTLE_MS);
			continue;
		}
		if (*mine && strcmp(mine, oldest.name) == 0)
			warn();
		else if (*mine)
			remove_dir(place, mine);
		dir_of(oldest.name, dir);
		fd = open_own(place, dir, err);
		if (fd != -ENOENT && fd != -EPERM)
			return fd;
		unlinkat(place, oldest.name, 0); /* its directory was removed */
		*mine = '\0';
	}
	return mlr_fail(err, EAGAIN, "find a directory in '" MEETING_PLACE "' to meet in");
}

int meeting_dir_open(struct mlr_error *err)
{
	auto_close int place = open(MEETING_PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (place < 0)
		return mlr_fail_errno(err,
			"open '" MEETING_PLACE "', where processes that share a container meet");
	r = open_plain(place, err);
	return r == -EPERM ? open_secret(place, err) : r;
}
