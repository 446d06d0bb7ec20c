
#include "base/base.h"
#include "base/file_owner.h"
#include "base/follow.h"
#include "base/walk.h"

#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int open_resolved(int dirfd, const char *path, int flags, mode_t mode, enum walk_how how)
{
	static int none; /* this kernel has no openat2(2) */
	const struct open_how h = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = (flags & (O_CREAT | O_TMPFILE)) ? mode : 0,
		.resolve = how == WALK_IN_ROOT ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
					       : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long fd = -1;

	if (__atomic_load_n(&none, __ATOMIC_RELAXED))
		return walk_open(dirfd, path, flags, how);
	/* The kernel returns EAGAIN if a rename raced with "..": try again. */
	do
		fd = syscall(SYS_openat2, dirfd, path, &h, sizeof(h));
	while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	/* Older sandboxes refuse unknown calls with EPERM; missing permission gives EACCES. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		__atomic_store_n(&none, errno == ENOSYS, __ATOMIC_RELAXED);
		return walk_open(dirfd, path, flags, how);
	}
	return fd < 0 ? -errno : (int)fd;
}

int file_open_in_root(int dirfd, const char *path, int flags, mode_t mode)
{
	return open_resolved(dirfd, path, flags, mode, WALK_IN_ROOT);
}

int file_open_beneath(int dirfd, const char *path, int flags)
{
	return open_resolved(dirfd, path, flags, 0, WALK_BENEATH);
}

int file_reopen_readable(int place, const struct stat *st, int *lent, struct file_owner *owner)
{
	mode_t need = S_ISDIR(st->st_mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	*lent = (st->st_mode & need) != need && st->st_uid == geteuid() &&
		chmod(path, (st->st_mode & 07777) | need) == 0;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (owner)
		file_owner_get_fd(fd, owner);
	/* Restore a file's mode at once, as the descriptor stays readable: a kill leaves it
	 * unchanged. */
	if (*lent && S_ISREG(st->st_mode)) {
		file_take_back(fd, st);
		*lent = 0;
	}
	return fd;
}

int file_open_readable(
	int dir, const char *name, const struct stat *st, int *lent, struct file_owner *owner)
{
	auto_close int place = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat sb;

	*lent = 0;
	if (place < 0 || fstat(place, &sb) < 0)
		return -errno;
	if (!file_is_one(&sb, st) || (sb.st_mode & S_IFMT) != (st->st_mode & S_IFMT))
		return -ESTALE;
	return file_reopen_readable(place, st, lent, owner);
}

char *file_fd_path(int fd)
{
	char link[32], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	return n < 0 ? NULL : xstrndup(path, (size_t)n);
}

char *file_fd_below(int top, int fd)
{
	auto_free char *above = file_fd_path(top), *path = file_fd_path(fd);

	if (!above || !path || !path_below(path, above))
		return NULL;
	return xstrdup(path + strlen(above) + strspn(path + strlen(above), "/"));
}

void file_take_back(int fd, const struct stat *st)
{
	fchmod(fd, st->st_mode & 07777);
}

DIR *file_open_dir(int dirfd, const char *path, int flags)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		take_fd(&fd);
	return d;
}

struct dirent *file_next(DIR *d)
{
	struct dirent *e = d ? readdir(d) : NULL;

	while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
		e = readdir(d);
	return e;
}

int file_list(int dirfd, const char *path, int flags, struct strv *ret)
{
	auto_dir DIR *d = file_open_dir(dirfd, path, flags);
	struct dirent *e;
	int r;

	if (!d)
		return -errno;
	for (errno = 0; (e = file_next(d)); errno = 0)
		strv_add(ret, e->d_name);
	r = -errno;
	strv_sort(ret);
	return r;
}

ssize_t file_read_full(int fd, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = TEMP_FAILURE_RETRY(read(fd, (char *)buf + got, len - got));

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int file_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(write(fd, p, len));

		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_of_text(const char *text)
{
	auto_close int fd = memfd_create("text", MFD_CLOEXEC);
	int r = fd < 0 || fchmod(fd, 0600) < 0 ? -errno : file_write_all(fd, text, strlen(text));

	return r < 0 ? r : lseek(fd, 0, SEEK_SET) < 0 ? -errno : take_fd(&fd);
}

static int read_whole(
	int fd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t size = 4096, got = 0;

	for (;;) {
		char *more;
		ssize_t n;

		if (size > max)
			size = max + 1; /* one byte beyond the limit detects a larger file */
		more = realloc(buf, size + 1);
		if (!more)
			return mlr_fail(err, ENOMEM, "read '%s': %zu bytes of memory", path, size);
		buf = more;
		n = file_read_full(fd, buf + got, size - got);
		if (n < 0)
			return mlr_fail(err, (int)-n, "read '%s': %s", path, strerror((int)-n));
		got += (size_t)n;
		if (got > max)
			return mlr_fail(err, EFBIG, "read '%s': larger than %zu bytes", path, max);
		if (got < size)
			break;
		size *= 2;
	}
	buf[got] = '\0';
	if (len)
		*len = got;
	*ret = take_ptr(&buf);
	return 0;
}

int file_read(
	int dirfd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? mlr_fail_errno(err, "open '%s'", path)
		      : read_whole(fd, path, max, ret, len, err);
}

int file_read_regular(
	int dirfd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	return S_ISREG(st.st_mode) ? read_whole(fd, path, max, ret, len, err)
				   : mlr_fail(err, EINVAL, "'%s' is not a regular file", path);
}

int file_sync_dir(int dirfd, const char *path)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

/* --- replacing ------------------------------------------------------------------------------ */

#define TEMP_END     ".tmp"
#define TEMP_SECONDS 3600 /* no write of one file takes an hour */

/* Write and sync a new file under a temporary name; errors name the final file. */
static int write_temp(int dirfd, const char *tmp, const char *path, const void *buf, size_t len,
	mode_t mode, struct mlr_error *err)
{
	auto_close int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0)
		return mlr_fail_errno(err, "create '%s'", path);
	TRY(mlr_result(err, file_write_all(fd, buf, len), "write '%s'", path));
	if (fsync(fd) < 0)
		return mlr_fail_errno(err, "sync '%s'", path);
	return take_fd(&fd);
}

char *file_temp_name(const char *path)
{
	char hex[RANDOM_HEX_SIZE];

	random_hex(hex);
	return xasprintf("%s.%s" TEMP_END, path, hex);
}

int file_replace(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
	struct mlr_error *err)
{
	auto_free char *tmp = file_temp_name(path), *dir = path_dir(path);
	auto_close int fd = -1; /* stays open until the rename, so that a sweep spares the file */
	int r;

	r = fd = write_temp(dirfd, tmp, path, buf, len, mode, err);
	if (r < 0)
		goto fail;
	if (renameat(dirfd, tmp, dirfd, path) < 0) {
		r = mlr_fail_errno(err, "rename '%s' to '%s'", tmp, path);
		goto fail;
	}
	r = file_sync_dir(dirfd, dir);
	return mlr_result(err, r, "sync the directory of '%s'", path);
fail:
	if (r != -EEXIST)
		unlinkat(dirfd, tmp, 0);
	return r;
}

int file_replace_list(
	int dirfd, const char *path, const struct strv *l, mode_t mode, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len = 0;

	for (size_t i = 0; i < l->n; i++) {
		size_t n = strlen(l->v[i]) + 1;

		text = xreallocarray(text, len + n, 1);
		memcpy(text + len, l->v[i], n);
		len += n;
	}
	return file_replace(dirfd, path, text, len, mode, err);
}

int file_create(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
	struct mlr_error *err)
{
	auto_free char *tmp = file_temp_name(path), *dir = path_dir(path);
	auto_close int fd = -1;
	int r;

	r = fd = write_temp(dirfd, tmp, path, buf, len, mode, err);
	if (r == -EEXIST)
		return r;
	if (r >= 0)
		r = linkat(dirfd, tmp, dirfd, path, 0) < 0
			? mlr_fail_errno(err, "create '%s'", path)
			: 0;
	unlinkat(dirfd, tmp, 0);
	TRY(r);
	return mlr_result(err, file_sync_dir(dirfd, dir), "sync the directory of '%s'", path);
}

int file_put(const char *path, const void *buf, size_t len, mode_t mode, struct mlr_error *err)
{
	auto_free char *real = NULL;
	auto_close int fd = -1;
	struct stat st;
	int r;

	TRY(follow_real(path, &real, err));
	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return file_replace(AT_FDCWD, real ? real : path, buf, len, mode, err);
	fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC); /* not real: /dev/stdout stays a link */
	r = fd < 0 ? -errno : file_write_all(fd, buf, len);
	return mlr_result(err, r, "write '%s'", path);
}

/* The path that a new file would have; NULL if its directory does not exist. */
static char *place_of(const char *path)
{
	auto_free char *dir = path_dir(path), *real = realpath(dir, NULL);

	return real ? xasprintf("%s/%s", real, path_base(path)) : NULL;
}

int file_is_same(const char *a, const char *b)
{
	auto_free char *a_place = NULL, *b_place = NULL;
	struct stat a_st, b_st;
	int a_there = stat(a, &a_st) == 0, b_there = stat(b, &b_st) == 0;

	if (a_there && b_there)
		return file_is_one(&a_st, &b_st);
	if (a_there != b_there)
		return 0;
	a_place = place_of(a);
	b_place = place_of(b);
	return strcmp(a_place ? a_place : a, b_place ? b_place : b) == 0;
}

static int keep_copy(const char *path, const char *kept, size_t max, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, path, max, &buf, &len, err);

	if (r == 0)
		r = file_replace(AT_FDCWD, kept, buf, len, 0666, err);
	return r < 0 ? mlr_wrap(err, "keep '%s'", path) : 1;
}

int file_keep(const char *path, size_t max, struct mlr_error *err)
{
	auto_free char *kept = xasprintf("%s~", path), *tmp = file_temp_name(path),
		       *dir = path_dir(path);
	int r;

	if (access(path, F_OK) < 0 || file_is_same(path, kept))
		return 0;
	if (link(path, tmp) < 0)
		return keep_copy(path, kept, max, err);
	if (rename(tmp, kept) < 0) {
		r = mlr_fail_errno(err, "keep '%s' as '%s'", path, kept);
		unlink(tmp);
		return r;
	}
	file_sync_dir(AT_FDCWD, dir);
	return 1;
}

/* Is this a temporary name of file_replace() for that file? */
static int is_temp_of(const char *name, const char *file)
{
	size_t n = strlen(file), hex = RANDOM_HEX_SIZE - 1;

	return strncmp(name, file, n) == 0 && name[n] == '.' &&
		strspn(name + n + 1, "0123456789abcdef") == hex &&
		strcmp(name + n + 1 + hex, TEMP_END) == 0;
}

/*
 * Is its writer gone? A read lease is granted only if no process has the file open for writing
 * (fcntl(2)). Network file systems grant none, and another user's files get none.
 */
static int is_left_over(int dir, const char *name)
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return fcntl(fd, F_SETLEASE, F_RDLCK) == 0 || time(NULL) - st.st_mtime > TEMP_SECONDS;
}

void file_replace_sweep(int at, const char *path)
{
	auto_free char *dir = path_dir(path);
	auto_dir DIR *d = file_open_dir(at, dir, 0);

	for (struct dirent *e; (e = file_next(d));)
		if (is_temp_of(e->d_name, path_base(path)) && is_left_over(dirfd(d), e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
}

/* --- directories ---------------------------------------------------------------------------- */

int file_mkdir_p(int dirfd, const char *path, mode_t mode, struct mlr_error *err)
{
	auto_free char *p = xstrdup(path);
	struct stat st;

	for (char *s = p + 1; *p; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdirat(dirfd, p, mode) < 0) {
			int code = errno;

			/* A parent that exists may be read-only or another user's. */
			if (fstatat(dirfd, p, &st, 0) < 0)
				return mlr_fail(
					err, code, "create directory '%s': %s", p, strerror(code));
			if (!S_ISDIR(st.st_mode))
				return mlr_fail(err, ENOTDIR, "'%s' is not a directory", p);
		}
		*s = c;
		if (c == '\0')
			break;
	}
	return 0;
}

static int remove_below(DIR *d, const char *path, struct mlr_error *err);

static int remove_at(int dirfd, const char *name, const char *path, struct mlr_error *err)
{
	auto_close int fd = -1;
	auto_dir DIR *d = NULL;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM && errno != EACCES)
		return mlr_fail_errno(err, "remove '%s'", path);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;

	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return mlr_fail_errno(err, "remove '%s'", path);
	fchmod(fd, 0700); /* so that its entries can be removed; a failure shows below */
	d = fdopendir(fd);
	if (!d)
		return mlr_fail_errno(err, "read directory '%s'", path);
	take_fd(&fd);
	TRY(remove_below(d, path, err));
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "remove '%s'", path);
	return 0;
}

static int remove_below(DIR *d, const char *path, struct mlr_error *err)
{
	for (struct dirent *e; (e = file_next(d));) {
		auto_free char *sub = xasprintf("%s/%s", path, e->d_name);
		TRY(remove_at(dirfd(d), e->d_name, sub, err));
	}
	return 0;
}

int file_remove_tree(int dirfd, const char *path, struct mlr_error *err)
{
	return remove_at(dirfd, path, path, err);
}
