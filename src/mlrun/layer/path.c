#include "layer/path.h"

#include "layer/unpack.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

/*
 * How a layer's tree hides names of the layers below: overlayfs's marks with "userxattr" (kernel,
 * Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories").
 */

#define LAYER_OPAQUE_XATTR "user.overlay.opaque"

int layer_whiteout_is(const struct stat *sb)
{
	return S_ISCHR(sb->st_mode) && sb->st_rdev == makedev(0, 0);
}

int layer_whiteout_make(int dir_fd, const char *name, struct mlr_error *err)
{
	int r;

	if (mknodat(dir_fd, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	r = mlr_fail_errno(err, "make the whiteout '%s'", name);
	if (r == -EPERM || r == -EOPNOTSUPP || r == -EINVAL)
		mlr_hint(err,
			"the store's file system allows no character device 0:0 (Linux 4.18 and a "
			"local file system do); mlrun pull --format=squashfs makes one file of an image, or "
			"choose another store with --store or MLRUN_STORE");
	return r;
}

int layer_opaque_set(int dir_fd, const char *name, struct mlr_error *err)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return mlr_fail_errno(err, "open directory '%s'", name);
	if (fsetxattr(fd, LAYER_OPAQUE_XATTR, "y", 1, 0) == 0)
		return 0;
	r = mlr_fail_errno(err, "make directory '%s' opaque", name);
	if (r == -EOPNOTSUPP || r == -EPERM)
		mlr_hint(err,
			"the store's file system keeps no user extended attributes; mlrun pull "
			"--format=squashfs makes one file of an image, or choose another store with "
			"--store or MLRUN_STORE");
	return r;
}

int layer_opaque_is(int fd)
{
	char v;

	return fgetxattr(fd, LAYER_OPAQUE_XATTR, &v, 1) == 1 && v == 'y';
}

#define LINKS_MAX 40 /* as the kernel's (path_resolution(7)) */

int layer_path_clean(const char *name, char ret[PATH_MAX], struct mlr_error *err)
{
	size_t n = 0;
	int depth = 0;

	if (!name || !*name)
		return mlr_fail(err, EPROTO, "a member without a name");
	while (*name) {
		size_t len = strcspn(name, "/");

		if (len == 2 && memcmp(name, "..", 2) == 0)
			return mlr_fail(err, EPROTO, "a path with '..'");
		if (len > 0 && !(len == 1 && name[0] == '.')) {
			if (n + len + 2 > PATH_MAX || ++depth > LAYER_DEPTH_MAX)
				return mlr_fail(err, ENAMETOOLONG,
					"a path longer than %d bytes or deeper than %d",
					PATH_MAX - 1, LAYER_DEPTH_MAX);
			if (n > 0)
				ret[n++] = '/';
			memcpy(ret + n, name, len);
			n += len;
		}
		name += len;
		name += strspn(name, "/");
	}
	ret[n] = '\0';
	return 0;
}

/* The state of a walk: cur is the current directory, real its path, rest what remains to walk. */
struct walk {
	int root, cur; /* cur is root itself if real is empty */
	char real[PATH_MAX];
	char rest[PATH_MAX];
	int links;
	layer_made_fn made;
	void *ctx;
};

static void walk_leave(struct walk *w, int fd)
{
	if (w->cur != w->root)
		close(w->cur);
	w->cur = fd;
}

static void walk_cleanup(struct walk *w)
{
	walk_leave(w, w->root);
}

/* Cut the first component off rest. Returns 0 at the end. */
static int next_name(struct walk *w, char name[NAME_MAX + 1])
{
	char *s = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(s, "/");

	if (len == 0)
		return 0;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, s, len);
	name[len] = '\0';
	memmove(w->rest, s + len, strlen(s + len) + 1);
	return 1;
}

static int go_up(struct walk *w)
{
	char *slash = strrchr(w->real, '/');
	int fd;

	if (w->cur == w->root)
		return 0; /* as ".." in "/" */
	if (!slash) {
		w->real[0] = '\0';
		walk_leave(w, w->root);
		return 0;
	}
	fd = openat(w->cur, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*slash = '\0';
	walk_leave(w, fd);
	return 0;
}

static int go_down(struct walk *w, const char *name)
{
	size_t len = strlen(w->real);
	int fd;

	if (len + strlen(name) + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	fd = openat(w->cur, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(w->real + len, PATH_MAX - len, "%s%s", len ? "/" : "", name);
	walk_leave(w, fd);
	return 0;
}

/* Prepend a symlink's target to rest. */
static int follow(struct walk *w, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(w->cur, name, target, sizeof(target) - 1);
	size_t left = strlen(w->rest);

	if (n < 0)
		return -errno;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if ((size_t)n + 1 + left + 1 > PATH_MAX)
		return -ENAMETOOLONG;
	memmove(w->rest + n + 1, w->rest, left + 1);
	memcpy(w->rest, target, (size_t)n);
	w->rest[n] = '/';
	if (target[0] == '/') {
		w->real[0] = '\0';
		walk_leave(w, w->root);
	}
	return 0;
}

/* Make a missing directory. A whiteout is replaced by an opaque directory, which still hides the
 * layers below. */
static int make_dir(struct walk *w, const char *name, int whiteout, struct mlr_error *err)
{

	if (whiteout && unlinkat(w->cur, name, 0) < 0)
		return mlr_fail_errno(err, "remove the whiteout '%s'", name);
	if (mkdirat(w->cur, name, 0755) < 0 || fchmodat(w->cur, name, 0755, 0) < 0)
		return mlr_fail_errno(err, "create directory '%s'", name);
	if (whiteout)
		TRY(layer_opaque_set(w->cur, name, err));
	TRY(mlr_result(err, go_down(w, name), "open directory '%s'", name));
	return w->made(w->ctx, w->real, whiteout, err);
}

static int step(struct walk *w, const char *name, struct mlr_error *err)
{
	struct stat sb;
	int r;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		r = go_up(w);
	else if (fstatat(w->cur, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT && w->made ? 1 : -errno;
	else if (S_ISLNK(sb.st_mode))
		r = follow(w, name);
	else if (layer_whiteout_is(&sb) && w->made)
		r = 2;
	else
		r = go_down(w, name);
	if (r > 0)
		return make_dir(w, name, r == 2, err);
	return mlr_result(err, r, "directory '%s'", name);
}

int layer_path_walk(int root, const char *path, layer_made_fn made, void *ctx, char real[PATH_MAX],
	struct mlr_error *err)
{
	auto_call(walk_cleanup) struct walk w = {
		.root = root, .cur = root, .made = made, .ctx = ctx
	};
	char name[NAME_MAX + 1];
	int fd, r;

	snprintf(w.rest, sizeof(w.rest), "%s", path);
	while ((r = next_name(&w, name)) > 0) {
		r = step(&w, name, err);
		if (r != 0)
			return r;
	}
	if (r < 0)
		return mlr_result(err, r, "directory '%s'", path);

	if (w.cur == root) {
		fd = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return mlr_fail_errno(err, "open the top directory");
	} else {
		fd = w.cur;
		w.cur = root; /* the caller's now */
	}
	if (real)
		strcpy(real, w.real);
	return fd;
}
