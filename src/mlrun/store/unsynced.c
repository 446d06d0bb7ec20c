#include "store/unsynced.h"

#include "base/filesystem.h"
#include "job/job.h"
#include "store/handle.h"
#include "store/hold.h"

static unsigned quirks(struct store *st)
{
	struct filesystem fs;

	filesystem_read(store_fd(st), &fs);
	return fs.quirks;
}

int unsynced_allowed(struct store *st)
{
	return (quirks(st) & FILESYSTEM_LOCAL) != 0;
}

/* The start of a mark's name: "layers-<hex>" for "layers/<hex>". */
static char *stem(const char *path)
{
	char *s = xstrdup(path);

	for (char *c = s; *c; c++)
		if (*c == '/')
			*c = '-';
	return s;
}

int unsynced_mark(struct store *st, const char *path)
{
	auto_free char *s = stem(path), *name = NULL;
	char boot[STORE_BOOT_SIZE], hex[17];
	auto_close int fd = -1;

	TRY(store_process_boot(boot));
	random_hex(hex);
	name = xasprintf("unsynced/%s.%s.%s", s, boot, hex);
	fd = openat(store_fd(st), name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* Else the tree's directory could reach the disk before the mark's. */
	return quirks(st) & FILESYSTEM_SYNCS_ALONE ? file_sync_dir(store_fd(st), "unsynced") : 0;
}

enum whose { THIS_BOOT, EARLIER_BOOTS };

/* Add the names of marks: of the tree with this stem, or of any (NULL). */
static void collect(struct store *st, enum whose whose, const char *of, struct strv *ret)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "unsynced", 0);
	char boot[STORE_BOOT_SIZE] = "";

	for (struct dirent *e; (e = file_next(d));) {
		const char *dot = strchr(e->d_name, '.');

		if (!dot || dot == e->d_name)
			continue;
		if (!*boot && store_process_boot(boot) < 0)
			break;
		if ((strncmp(dot + 1, boot, strlen(boot)) == 0) != (whose == THIS_BOOT))
			continue;
		if (!of ||
			(strncmp(e->d_name, of, (size_t)(dot - e->d_name)) == 0 &&
				of[dot - e->d_name] == '\0'))
			strv_addf(ret, "unsynced/%s", e->d_name);
	}
}

/* Does the directory have any mark? Each start of a container asks; readdir(3) would take twice as
 * long. 1 if unknown. */
static int has_marks(struct store *st)
{
	_Alignas(struct dirent64) char buf[512];
	auto_close int fd = openat(store_fd(st), "unsynced", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno != ENOENT;
	while ((n = getdents64(fd, buf, sizeof(buf))) > 0) {
		const struct dirent64 *e;

		for (ssize_t at = 0; at < n; at += e->d_reclen) {
			e = (const void *)(buf + at);
			if (e->d_name[0] != '.')
				return 1;
		}
	}
	return n < 0;
}

int unsynced_is_suspect(struct store *st, const char *path)
{
	auto_strv struct strv any = STRV_INIT, marks = STRV_INIT;
	auto_free char *s = NULL;

	if (__atomic_load_n(&st->no_suspects, __ATOMIC_RELAXED))
		return 0;
	if (has_marks(st))
		collect(st, EARLIER_BOOTS, NULL, &any);
	if (any.n == 0 || !unsynced_allowed(st)) {
		__atomic_store_n(&st->no_suspects, 1, __ATOMIC_RELAXED);
		return 0;
	}
	s = stem(path);
	collect(st, EARLIER_BOOTS, s, &marks);
	return marks.n > 0;
}

void unsynced_forget(struct store *st, const char *path)
{
	auto_strv struct strv marks = STRV_INIT;
	auto_free char *s = stem(path);

	collect(st, EARLIER_BOOTS, s, &marks);
	for (size_t i = 0; i < marks.n; i++)
		unlinkat(store_fd(st), marks.v[i], 0);
}

void unsynced_sweep(struct store *st)
{
	auto_strv struct strv marks = STRV_INIT;

	if (!unsynced_allowed(st))
		return;
	collect(st, EARLIER_BOOTS, NULL, &marks);
	for (size_t i = 0; i < marks.n; i++) {
		auto_free char *path = xstrdup(strchr(marks.v[i], '/') + 1);

		path[strcspn(path, ".")] = '\0';
		path[strcspn(path, "-")] = '/';
		if (faccessat(store_fd(st), path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			unlinkat(store_fd(st), marks.v[i], 0);
	}
}

/* Sync, then delete the marks. A child of a program with threads runs this, so it makes only
 * async-signal-safe calls. */
static void sync_and_unmark(int fd, const struct strv *marks)
{
	if (syncfs(fd) < 0)
		return;
	for (size_t i = 0; i < marks->n; i++)
		unlinkat(fd, marks->v[i], 0);
}

/* Do that in a process of its own, with no open file but the store. */
static int sync_behind(int fd, const struct strv *marks)
{
	pid_t pid = fork();
	int null;

	if (pid != 0)
		return pid < 0 ? -errno : 0;
	setsid();
	null = open("/dev/null", O_RDWR);
	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	/* A copied descriptor of a lock would keep the lock. */
	if (dup2(fd, 3) == 3 && fds_close_range(4, ~0u, 0) == 0 && chdir("/") == 0)
		sync_and_unmark(3, marks);
	_exit(0);
}

void store_settle(struct store *st)
{
	auto_strv struct strv marks = STRV_INIT;

	/* Other processes' marks so far, too: the same sync writes their trees. */
	collect(st, THIS_BOOT, NULL, &marks);
	if (marks.n == 0)
		return;
	/* A batch system may kill, or wait for, what a job leaves behind. */
	if (job_system(environ) || sync_behind(store_fd(st), &marks) < 0)
		sync_and_unmark(store_fd(st), &marks);
}
