#include "cli/hook_root.h"

#include "base/base.h"
#include "base/json.h"
#include "runtime/target.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#define STATE_MAX  (1u << 20)  /* bytes of the state on stdin */
#define CONFIG_MAX (16u << 20) /* bytes of config.json */
#define MAX_LINKS  40          /* path_resolution(7) */

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s && *s ? s : NULL;
}

static json_t *read_json(int fd, size_t max)
{
	auto_free char *text = xmalloc(max + 1);
	ssize_t n = file_read_full(fd, text, max + 1);

	return n < 0 || (size_t)n > max ? NULL
					: json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
}

/* Open the bundle's directory, from the state that a runtime gives its hooks (runtime.md,
 * "State"). */
static int open_bundle(struct mlr_error *err)
{
	json_auto_t *state = read_json(STDIN_FILENO, STATE_MAX);
	const char *bundle = text_of(state, "bundle");
	int fd;

	if (!bundle || *bundle != '/' || !text_of(state, "ociVersion") || !text_of(state, "id")) {
		mlr_fail(err, EINVAL, "expected a container's state on standard input");
		return mlr_hint(err, "container runtimes run this command; see mlrun-gpu(1), cdi");
	}
	fd = open(bundle, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "the bundle '%s'", bundle) : fd;
}

/* Refuse this machine's root: links are created only in a container's. */
static int check_root(int root, const char *path, struct mlr_error *err)
{
	struct stat ours, theirs;

	if (stat("/", &ours) < 0 || fstat(root, &theirs) < 0)
		return mlr_fail_errno(err, "'%s'", path);
	if (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
		return mlr_fail(err, EINVAL, "'%s' is this machine's own root", path);
	return 0;
}

int hook_root_open(struct mlr_error *err)
{
	auto_close int bundle = open_bundle(err), file = -1, root = -1;
	json_auto_t *config = NULL;
	const char *path;

	if (bundle < 0)
		return bundle;
	file = openat(bundle, "config.json", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return mlr_fail_errno(err, "config.json of the bundle");
	config = read_json(file, CONFIG_MAX);
	path = text_of(json_object_get(config, "root"), "path");
	if (!path)
		return mlr_fail(err, EPROTO, "config.json of the bundle names no root");
	root = openat(bundle, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return mlr_fail_errno(err, "the container's root '%s'", path);
	return check_root(root, path, err) < 0 ? -err->code : take_fd(&root);
}

/* Are both in one mount? Kernels before 5.8 only tell file systems apart. */
static int same_mount(int a, int b)
{
	struct statx x, y;

	if (statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) < 0 ||
		statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &y) < 0)
		return 0;
	if ((x.stx_mask & y.stx_mask & STATX_MNT_ID) && x.stx_mnt_id != y.stx_mnt_id)
		return 0;
	return x.stx_dev_major == y.stx_dev_major && x.stx_dev_minor == y.stx_dev_minor;
}

/* Refuse directories outside the root's own mount and the tmpfs on /dev. */
static int check_place(int root, int dir, const char *path, struct mlr_error *err)
{
	struct statfs fs;

	if (same_mount(root, dir))
		return 0;
	if (path_below(path, "/dev") && fstatfs(dir, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
		return 0;
	return mlr_fail(err, EXDEV,
		"'%s' leads to another file system than the container's root, as a volume's", path);
}

/* The target of a dangling link, with the rest of the path, to free(); NULL: not a link. */
static char *through_link(int root, const char *dir, const char *rest)
{
	auto_close int link = file_open_in_root(root, dir, O_PATH | O_NOFOLLOW, 0);
	char text[PATH_MAX];
	ssize_t n = link < 0 ? -1 : readlinkat(link, "", text, sizeof(text) - 1);

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	if (*text == '/')
		return xasprintf("%s%s", text, rest);
	return xasprintf("%.*s/%s%s", (int)(strrchr(dir, '/') - dir), dir, text, rest);
}

/* Check the last existing directory on a path before creating missing ones in it. */
static int check_way(int root, const char *path, int links, struct mlr_error *err)
{
	for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
		auto_free char *dir = xstrndup(path, (size_t)(slash - path)), *other = NULL;
		auto_close int fd = file_open_in_root(root, dir, O_PATH, 0);

		if (fd >= 0 && check_place(root, fd, path, err) < 0)
			return -err->code;
		if (fd != -ENOENT)
			continue;
		other = links < MAX_LINKS ? through_link(root, dir, slash) : NULL;
		return other ? check_way(root, other, links + 1, err) : 0;
	}
	return 0;
}

int hook_root_place(int root, const char *path, const char **name, struct mlr_error *err)
{
	auto_close int dir = check_way(root, path, 0, err) < 0
		? -err->code
		: target_parent(root, path, name, err);

	if (dir < 0)
		return dir;
	return check_place(root, dir, path, err) < 0 ? -err->code : take_fd(&dir);
}

int hook_root_is_mounted(int root, const char *path)
{
	auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	auto_close int dir = file_open_in_root(root, *parent ? parent : "/", O_PATH, 0),
		       file = file_open_in_root(root, path, O_PATH, 0);

	return dir >= 0 && file >= 0 && !same_mount(dir, file);
}

/* An image may contain device nodes, and merely opening some has effects: check before opening. */
int hook_root_open_file(void *ctx, const char *path)
{
	auto_close int seen = file_open_in_root(*(int *)ctx, path, O_PATH, 0), fd = -1;
	char name[32];
	struct stat st;

	if (seen < 0)
		return seen;
	if (fstat(seen, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", seen);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : take_fd(&fd);
}

int hook_root_list(void *ctx, const char *path, struct strv *ret)
{
	auto_close int fd = file_open_in_root(*(int *)ctx, path, O_RDONLY | O_DIRECTORY, 0);

	return fd < 0 ? fd : file_list(fd, ".", 0, ret);
}

int hook_root_put(int root, const char *path, const char *bytes, size_t size, struct mlr_error *err)
{
	const char *name = NULL;
	auto_close int dir = hook_root_place(root, path, &name, err);

	if (dir < 0)
		return dir;
	if (file_replace(dir, name, bytes, size, 0644, err) < 0)
		return mlr_wrap(err, "'%s' in the container", path);
	return 0;
}
