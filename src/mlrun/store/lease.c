#include "store/lease.h"

#include "base/proc.h"
#include "oci/digest.h"
#include "store/process.h"

#define FOREIGN_SECONDS \
	(7 * 24 * 3600)  /* how long a lease of another host or PID namespace counts */
#define SWEEP_EVERY 256  /* one in so many new leases cleans up */
#define USE_SECONDS 3600 /* precision of an image's last use */
#define HEX         64
#define DAY_NAME    48
#define LEASE_PATH  280 /* "leases/<hex>.<process>" */

/* The prefix of a day's shared files, ".<day>-". */
static int day_prefix(char name[DAY_NAME])
{
	return snprintf(name, DAY_NAME, ".%ld-", (long)(time(NULL) / 86400));
}

/* The file that the leases of a day, user and job share: ".<day>-<uid>" or ".<day>-<uid>.<16 hex>".
 */
static void day_name(const char *job, char name[DAY_NAME])
{
	char hex[HASH_HEX_SIZE] = "";
	int len = day_prefix(name);

	if (job[0])
		hash_name(job, hex);
	snprintf(name + len, DAY_NAME - (size_t)len, "%lu%s%.16s", (unsigned long)geteuid(),
		job[0] ? "." : "", hex);
}

/* Read the job in a lease; "" outside Slurm. */
static void read_job(int dir, const char *name, char job[JOB_NAME_SIZE])
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : file_read_full(fd, job, JOB_NAME_SIZE - 1);

	job[n > 0 ? n : 0] = '\0';
	job[strcspn(job, "\n")] = '\0';
}

/* Whether to run squeue, which can take seconds a job. The cleaning up by a container's start does
 * not, and keeps the leases that only squeue could judge. */
enum ask { ASK_SLURM, ASK_NOBODY };

/* Another user's lease counts only for that user's own processes. */
static int is_his(pid_t pid, uid_t uid)
{
	char path[32], text[2048];
	unsigned long real, effective;
	const char *line;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	if (proc_read(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	line = strstr(text, "\nUid:");
	return line && sscanf(line, "\nUid:%lu%lu", &real, &effective) == 2 &&
		(real == uid || effective == uid);
}

/* A lease's age by its change time, which the kernel sets: its owner may set any modification time.
 */
static time_t age_of(const struct stat *sb)
{
	return time(NULL) - (sb->st_uid == geteuid() ? sb->st_mtime : sb->st_ctime);
}

/* Is the lease valid? Deletes one that is not. Reads the job only of a process that cannot be seen
 * from here: each start in a container judges all its neighbours. */
static int judge(struct store *st, int dir, const char *name, const struct store_process *self,
	enum ask ask, struct store_lease *ret)
{
	struct store_process p;
	struct stat sb;
	int alive;

	if (store_process_parse(name + HEX + 1, &p) < 0 ||
		fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	memset(ret, 0, sizeof(*ret));
	alive = store_process_judge(st, &p, self);
	if (alive > 0 && sb.st_uid != geteuid() && !is_his(p.pid, sb.st_uid))
		alive = 0;
	ret->is_seen = alive > 0;
	if (alive < 0 && sb.st_uid == geteuid()) /* other users could name any running job */
		read_job(dir, name, ret->job);
	if (alive < 0 && ret->job[0])
		alive = ask == ASK_SLURM ? job_is_alive(ret->job) : 1;
	if (alive == 0 || (alive < 0 && age_of(&sb) >= FOREIGN_SECONDS)) {
		unlinkat(dir, name, 0);
		return 0;
	}
	ret->pid = p.pid;
	memcpy(ret->host, p.host, sizeof(ret->host));
	ret->since = sb.st_mtime;
	ret->here = strcmp(p.host, self->host) == 0;
	ret->other_boot = strcmp(p.boot, self->boot) != 0;
	ret->is_running = alive > 0;
	return 1;
}

static DIR *open_leases(struct store *st)
{
	return file_open_dir(store_fd(st), "leases", 0);
}

/* The next lease of one manifest, or of any (hex NULL). */
static const char *next(DIR *d, const char *hex)
{
	for (struct dirent *e; (e = file_next(d));)
		if (strlen(e->d_name) > HEX + 1 && (!hex || strncmp(e->d_name, hex, HEX) == 0))
			return e->d_name;
	return NULL;
}

/* Record the time of the last use in the facts file, at most once an hour. A time in the future,
 * from a wrong clock, is replaced. */
static int touch_facts(struct store *st, const char *hex)
{
	char facts[96];
	struct stat sb;
	time_t age;

	snprintf(facts, sizeof(facts), "facts/%.64s.json", hex);
	if (fstatat(store_fd(st), facts, &sb, 0) < 0)
		return -errno;
	age = time(NULL) - sb.st_mtime;
	if ((age >= USE_SECONDS || age <= -USE_SECONDS) &&
		utimensat(store_fd(st), facts, NULL, 0) < 0)
		mlr_debug("store: last use: %s", strerror(errno));
	return 0;
}

/* Delete shared files of earlier days without leases. */
static void sweep_days(DIR *d)
{
	char today[DAY_NAME];
	struct stat sb;

	day_prefix(today);
	rewinddir(d);
	for (struct dirent *e; (e = file_next(d));)
		if (e->d_name[0] == '.' && e->d_name[1] >= '0' && e->d_name[1] <= '9' &&
			strncmp(e->d_name, today, strlen(today)) != 0 &&
			fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			sb.st_nlink == 1)
			unlinkat(dirfd(d), e->d_name, 0);
}

static void sweep(struct store *st, enum ask ask)
{
	auto_dir DIR *d = open_leases(st);
	struct store_process self;
	struct store_lease one;
	const char *name;

	if (d && store_process_self(&self) == 0) {
		while ((name = next(d, NULL)))
			judge(st, dirfd(d), name, &self, ask, &one);
		sweep_days(d);
	}
}

/* Is the shared file this user's? Others may have made one of this name, and root may link to it
 * (proc_sys_fs(5), protected_hardlinks). */
static int is_ours(int top, const char *path)
{
	struct stat sb;

	return geteuid() != 0 || fstatat(top, path, &sb, AT_SYMLINK_NOFOLLOW) < 0 || sb.st_uid == 0;
}

/*
 * Make the lease's file as another link to the day's file, or as a new one. Finding a free inode
 * takes ext4 ten times as long as adding a link: 150 us, as it skips recently freed inodes.
 *
 * Returns 0; -EEXIST if this process already has this lease; or -errno.
 */
static int put(struct store *st, const char *hex, const struct store_process *self,
	char path[LEASE_PATH], struct mlr_error *err)
{
	char who[STORE_PROCESS_NAME], job[JOB_NAME_SIZE], name[DAY_NAME], day[DAY_NAME + 8];
	auto_close int fd = -1;
	int top = store_fd(st);

	store_process_name(self, who);
	snprintf(path, LEASE_PATH, "leases/%.64s.%s", hex, who);
	job_name(job);
	day_name(job, name);
	snprintf(day, sizeof(day), "leases/%s", name);
	if (linkat(top, day, top, path, 0) == 0) {
		if (is_ours(top, path))
			return 0;
		unlinkat(top, path, 0);
	} else if (errno == EEXIST) {
		return -EEXIST;
	}
	fd = openat(top, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return mlr_fail_errno(err, "take a lease in '%s/leases'", store_path(st));
	if (job[0] && file_write_all(fd, job, strlen(job)) < 0)
		mlr_debug("store: the lease does not name its job: %s", strerror(errno));
	else if (linkat(top, path, top, day, 0) < 0)
		mlr_debug("store: '%s': %s", day, strerror(errno));
	return 0;
}

static int who_am_i(struct store_process *self, struct mlr_error *err)
{
	return mlr_result(err, store_process_self(self), "lease: read /proc/self/stat and boot_id");
}

int store_lease_take(struct store *st, const char *manifest, struct mlr_error *err)
{
	struct store_process self;
	const char *hex = oci_digest_hex(manifest);
	char path[LEASE_PATH];
	int r;

	TRY(who_am_i(&self, err));
	r = put(st, hex, &self, path, err);
	if (r == -EACCES || r == -EPERM || r == -EROFS || r == -ENOENT)
		return 0;
	if (r == -ENOSPC || r == -EDQUOT) {
		mlr_debug("store: no lease: %s", strerror(-r));
		return 0; /* a full disk does not prevent running */
	}
	if (r < 0 && r != -EEXIST)
		return r;

	/* rm removes the facts before it looks for leases, so one of the two sees the other. */
	if (touch_facts(st, hex) == -ENOENT) {
		unlinkat(store_fd(st), path, 0);
		return mlr_fail(err, ENOENT, "image %s is no longer in store '%s'", manifest,
			store_path(st));
	}
	if (self.pid % SWEEP_EVERY == 0)
		sweep(st, ASK_NOBODY);
	return 0;
}

int store_lease_take_key(struct store *st, const char *key, struct mlr_error *err)
{
	struct store_process self;
	char path[LEASE_PATH];
	int r = who_am_i(&self, err);

	if (r == 0)
		r = put(st, oci_digest_hex(key), &self, path, err);
	return r == -EEXIST ? 0 : r;
}

void store_lease_return_key(struct store *st, const char *key)
{
	struct store_process self;
	char who[STORE_PROCESS_NAME], path[LEASE_PATH];

	if (store_process_self(&self) < 0)
		return;
	store_process_name(&self, who);
	snprintf(path, LEASE_PATH, "leases/%.64s.%s", oci_digest_hex(key), who);
	unlinkat(store_fd(st), path, 0);
}

static int is_meant(const struct store_lease *l, enum store_lease_who who)
{
	return who == STORE_LEASE_ANYBODY || (who == STORE_LEASE_FAR && !l->is_seen) ||
		(who == STORE_LEASE_NEIGHBOUR && l->is_seen && l->pid != getpid());
}

int store_lease_find(
	struct store *st, const char *key, enum store_lease_who who, struct store_lease *ret)
{
	auto_dir DIR *d = open_leases(st);
	struct store_process self;
	struct store_lease one;
	const char *name;
	int found = 0;

	if (d && store_process_self(&self) == 0) {
		while ((name = next(d, oci_digest_hex(key)))) {
			if (!judge(st, dirfd(d), name, &self, ASK_SLURM, &one) ||
				!is_meant(&one, who))
				continue;
			if (!found || one.is_running) {
				*ret = one;
				read_job(dirfd(d), name, ret->job);
			}
			found = 1;
			if (one.is_running)
				break;
		}
	}
	return found;
}

int store_lease_held(struct store *st, const char *manifest, struct store_lease *ret)
{
	return store_lease_find(st, manifest, STORE_LEASE_ANYBODY, ret);
}

int64_t store_lease_last_use(struct store *st, const char *manifest)
{
	char facts[96];
	struct stat sb;

	snprintf(facts, sizeof(facts), "facts/%.64s.json", oci_digest_hex(manifest));
	return fstatat(store_fd(st), facts, &sb, 0) < 0 ? 0 : sb.st_mtime;
}

static void drop(struct store *st, const char *key, int also_seen)
{
	auto_dir DIR *d = open_leases(st);
	struct store_process self;
	struct store_lease one;
	const char *name;

	if (d && store_process_self(&self) == 0)
		while ((name = next(d, oci_digest_hex(key))))
			if (also_seen ||
				(judge(st, dirfd(d), name, &self, ASK_SLURM, &one) &&
					!one.is_running))
				unlinkat(dirfd(d), name, 0);
}

void store_lease_drop(struct store *st, const char *manifest)
{
	drop(st, manifest, 1);
}

void store_lease_drop_unseen(struct store *st, const char *key)
{
	drop(st, key, 0);
}

void store_lease_sweep(struct store *st)
{
	sweep(st, ASK_SLURM);
}
