#include "runtime/target.h"

#define MAX_LINKS 40 /* the kernel's own limit, path_resolution(7) */

static int make_place(int root, const char *path, int is_dir, int links, struct mlr_error *err);

static int open_parent(
	int root, const char *path, int links, const char **name, struct mlr_error *err)
{
	const char *end = path + strlen(path), *slash;

	while (end > path && end[-1] == '/')
		end--;
	for (slash = end; slash > path && slash[-1] != '/';)
		slash--;
	if (slash == end || strcmp(slash, ".") == 0 || strcmp(slash, "..") == 0)
		return mlr_fail(err, EINVAL, "'%s' has no last component", path);
	*name = slash;
	if (slash == path)
		return make_place(root, "/", 1, links, err);

	auto_free char *dir = xstrndup(path, (size_t)(slash - path));

	return make_place(root, dir, 1, links, err);
}

/* The target of a dangling link, as a path inside the root; dir is the link's directory, with its
 * slash. */
static char *link_destination(int parent, const char *name, const char *dir, size_t dir_len)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(parent, name, text, sizeof(text) - 1);

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	if (text[0] == '/')
		return xstrdup(text);
	return xasprintf("%.*s%s", (int)dir_len, dir, text);
}

static int create_at(int parent, const char *name, int is_dir)
{
	auto_call(target_times_restore) struct target_times times = TARGET_TIMES_INIT;
	auto_close int fd = -1;

	target_times_save(&times, parent);
	if (is_dir)
		return mkdirat(parent, name, 0755) < 0 ? -errno : 0;
	fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : 0;
}

static int make_place(int root, const char *path, int is_dir, int links, struct mlr_error *err)
{
	const char *name = NULL;
	auto_close int parent = -1;
	int fd, r;

	fd = file_open_in_root(root, path, O_PATH | (is_dir ? O_DIRECTORY : 0), 0);
	if (fd >= 0)
		return fd;
	if (fd != -ENOENT)
		return mlr_result(err, fd, "'%s' in the image", path);

	parent = open_parent(root, path, links, &name, err);
	if (parent < 0)
		return parent;

	auto_free char *last = xstrndup(name, strcspn(name, "/"));

	r = create_at(parent, last, is_dir);
	/* Another container with the same root may have made it meanwhile. */
	if (r == -EEXIST) {
		fd = file_open_in_root(root, path, O_PATH | (is_dir ? O_DIRECTORY : 0), 0);
		if (fd >= 0)
			return fd;
	}
	if (r == -EEXIST) {
		/* A dangling link: make its target, inside the root. */
		auto_free char *to = link_destination(parent, last, path, (size_t)(name - path));

		if (!to || links >= MAX_LINKS)
			return mlr_fail(
				err, ELOOP, "'%s' in the image is a link that leads nowhere", path);
		return make_place(root, to, is_dir, links + 1, err);
	}
	if (r == -EOVERFLOW)
		return mlr_fail(err, EOVERFLOW,
			"create '%s' in the container: the image's files belong to "
			"another user or group, for whom this user namespace has no id",
			path);
	if (r < 0)
		return mlr_result(err, r, "create '%s' in the container", path);

	fd = openat(parent, last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "open '%s' in the container", path) : fd;
}

int target_open(int root, const char *path, int is_dir, int *linked, struct mlr_error *err)
{
	auto_close int fd = file_open_beneath(root, path + 1, O_PATH | (is_dir ? O_DIRECTORY : 0));
	struct stat st;

	if (fd < 0) {
		*linked = 1;
		fd = make_place(root, path, is_dir, 0, err);
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "'%s' in the container", path);
	if (!is_dir && S_ISDIR(st.st_mode))
		return mlr_fail(err, EISDIR,
			"'%s' in the image is a directory, but the source is not", path);
	return take_fd(&fd);
}

int target_mkdir(int root, const char *path, struct mlr_error *err)
{
	return make_place(root, path, 1, 0, err);
}

int target_parent(int root, const char *path, const char **name, struct mlr_error *err)
{
	return open_parent(root, path, 0, name, err);
}

int target_replace(int root, const char *path, const void *buf, size_t len, struct mlr_error *err)
{
	const char *name = NULL;
	auto_close int dir = target_parent(root, path, &name, err);
	auto_call(target_times_restore) struct target_times times = TARGET_TIMES_INIT;
	auto_close int fd = -1;

	if (dir < 0)
		return dir;
	target_times_save(&times, dir);
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "replace '%s' in the container", path);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return mlr_fail_errno(err, "create '%s' in the container", path);
	return mlr_result(err, file_write_all(fd, buf, len), "write '%s' in the container", path);
}

void target_times_save(struct target_times *t, int dir)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return;
	t->at[0] = st.st_atim;
	t->at[1] = st.st_mtim;
	t->dir = dir;
}

/* Best effort: times are no reason to fail. */
void target_times_restore(const struct target_times *t)
{
	if (t->dir >= 0 && utimensat(t->dir, ".", t->at, 0) < 0)
		mlr_debug(
			"put back the times of a directory in the container: %s", strerror(errno));
}
