/*
 * Options name the overlay's directories by path if they fit into the page that mount(2) takes,
 * since the kernel resolves a path several times as fast as /proc/self/fd. Otherwise they are
 * descriptor numbers relative to /proc/self/fd as the working directory:
 * "lowerdir=7:8:9,upperdir=12/upper". overlayfs needs descriptors of this mount namespace.
 */
#include "runtime/overlay.h"

#include "runtime/bind.h"
#include "runtime/runtime.h"

#include <sys/mount.h>
#include <sys/utsname.h>

#define LOWERS_MAX  500  /* the kernel's limit, fs/overlayfs/params.h */
#define OPTIONS_MAX 4000 /* bytes: mount(2) takes a page */

static int covers_tree(const struct plan *p, const char *place)
{
	for (size_t i = 0; p && i < p->lowers.n; i++)
		if (path_below(p->lowers.v[i], place))
			return 1;
	return 0;
}

/* Would the scratch come along into the container with a source? */
static int covers_source(const struct plan *p, const char *place)
{
	for (size_t i = 0; p && !bind_clones() && i < p->n_mounts; i++)
		if (p->mounts[i].kind == PLAN_BIND && path_below(place, p->mounts[i].source))
			return 1;
	return 0;
}

/* Choose where to mount the scratch: a directory that every host has, preferably one that holds no
 * tree and no source. */
static const char *choose_place(const struct plan *p)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/run", "/mnt" };
	const char *any = NULL;
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (stat(places[i], &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (!covers_tree(p, places[i]) && !covers_source(p, places[i]))
			return places[i];
		any = any ? any : places[i];
	}
	return any;
}

int overlay_mount_scratch(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	auto_free char *mark = p ? container_mark(p) : xstrdup("mlrun");
	const char *place = o->place = choose_place(p);

	if (!place)
		return mlr_fail(err, ENOENT, "none of /tmp, /var/tmp, /run, /mnt is a directory");
	if (mount(mark, place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0) {
		int r = mlr_fail_errno(err, "mount a tmpfs in a user namespace");

		runtime_hint_userns("/", err);
		return r;
	}
	o->scratch = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->scratch < 0)
		return mlr_fail_errno(err, "open the scratch tmpfs on '%s'", place);
	if (mkdirat(o->scratch, "work", 0755) < 0)
		return mlr_fail_errno(err, "make 'work' in the scratch tmpfs");
	return 0;
}

static int open_trees(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	for (size_t i = 0; i < p->lowers.n; i++) {
		int fd = open(p->lowers.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return mlr_fail_errno(err, "open the image's tree '%s'", p->lowers.v[i]);
		stack_take(&o->trees, fd);
	}
	return 0;
}

/* Open the trees once more, asking the file server: after another node has removed an image and
 * fetched it again, this node's cache leads to directories that are gone (ESTALE). open(2) for
 * reading looks anew, O_PATH and overlayfs do not. */
static int reopen_trees(const struct plan *p, struct overlay *o)
{
	size_t first = o->trees.n - p->lowers.n; /* after the kept layer */

	for (size_t i = 0; i < p->lowers.n; i++) {
		int fd = open(p->lowers.v[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		close(o->trees.fds[first + i]);
		o->trees.fds[first + i] = fd;
	}
	return 0;
}

/* Open a named container's kept layer; it is empty at first. */
static int open_kept(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	int fd;

	if (p->root != PLAN_ROOT_KEPT)
		return 0;
	o->kept = open(p->kept, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->kept < 0)
		return mlr_fail_errno(err, "open the container's directory '%s'", p->kept);
	fd = openat(o->kept, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "open '%s/upper'", p->kept);
	o->kept_is_lower = fd >= 0;
	if (fd >= 0)
		stack_take(&o->trees, fd);
	return 0;
}

/* Mount a squashfs file as the lower tree. */
static int mount_image(const struct plan *p, const struct squash_server *server, struct overlay *o,
	struct mlr_error *err)
{
	char path[48];
	int r;

	if (mkdirat(o->scratch, "image", 0755) < 0)
		return mlr_fail_errno(err, "make 'image' in the scratch tmpfs");
	snprintf(path, sizeof(path), "/proc/self/fd/%d/image", o->scratch);
	TRY(squash_mount(p, server, path, err));
	r = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r < 0)
		return mlr_fail_errno(err, "open the image's root");
	stack_take(&o->trees, r);
	o->image = fcntl(r, F_DUPFD_CLOEXEC, 0);
	r = squash_wait(p, server, err);
	if (r == 0 && server->sock >= 0)
		o->command = squash_open_command(p, o->image);
	return r;
}

/* The upper layer's top is the container's "/". It gets the image's mode here; upper_fill() sets
 * its times last. */
static int make_upper(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	struct stat st;
	int r = fstat(o->trees.fds[0], &st);

	if (r < 0 && errno == ESTALE && reopen_trees(p, o) == 0)
		r = fstat(o->trees.fds[0], &st);
	if (r < 0)
		return mlr_fail_errno(err, "look at the image's root");
	if (mkdirat(o->scratch, "upper", plan_open_mode(p, "/", st.st_mode & 01777)) < 0)
		return mlr_fail_errno(err, "make the upper layer in the scratch tmpfs");
	o->upper = openat(o->scratch, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->upper < 0 ? mlr_fail_errno(err, "open the upper layer") : 0;
}

static int open_all(const struct plan *p, const struct squash_server *server, struct overlay *o,
	struct mlr_error *err)
{
	if (p->lowers.n == 0 && !p->squashfs)
		return mlr_fail(err, EINVAL, "the image has no layers");
	TRY(open_kept(p, o, err));
	TRY(open_trees(p, o, err));
	TRY(overlay_mount_scratch(p, o, err));
	if (p->squashfs)
		TRY(mount_image(p, server, o, err));
	return make_upper(p, o, err);
}

int overlay_open(const struct plan *p, const struct squash_server *server, struct overlay *ret,
	struct mlr_error *err)
{
	auto_call(overlay_done) struct overlay o = OVERLAY_INIT;

	TRY(open_all(p, server, &o, err));
	*ret = take_struct(&o, OVERLAY_INIT);
	return 0;
}

int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options)
{
	auto_free char *mark = p ? container_mark(p) : xstrdup("mlrun");
	char root[24];

	snprintf(root, sizeof(root), "%d/root", o->scratch);
	if ((mkdirat(o->scratch, "root", 0755) < 0 && errno != EEXIST) ||
		chdir("/proc/self/fd") < 0 ||
		mount(mark, root, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	o->root = openat(o->scratch, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->root < 0 ? -errno : 0;
}

static int overlay_failed(const struct plan *p, int code, struct mlr_error *err)
{
	struct utsname u;

	uname(&u);
	if (p->squashfs)
		mlr_fail(err, code, "mount an overlay of the image: %s", strerror(code));
	else
		mlr_fail(err, code, "mount an overlay of the image's %zu %s: %s", p->lowers.n,
			p->lowers.n == 1 ? "tree" : "trees", strerror(code));
	if (p->lowers.n > LOWERS_MAX)
		mlr_hint(err,
			"the kernel stacks %d trees; mlrun pull --format=dir or squashfs makes one of "
			"the image",
			LOWERS_MAX);
	else if (code == ENODEV)
		mlr_hint(err,
			"the kernel has no overlayfs; an administrator can load it: modprobe overlay");
	else if (code == EPERM)
		mlr_hint(err,
			"overlay mounts of ordinary users need Linux 5.11, this is %s; mlrun pull "
			"--format=dir or --format=squashfs makes one tree of the image, which runs "
			"without an overlay",
			u.release);
	else if (code == EINVAL)
		mlr_hint(err,
			"the file system that holds '%s' may not serve as an overlay's lower layer, or "
			"another one is mounted below it; mlrun pull --format=squashfs or "
			"--format=dir makes one tree of the image, which runs without an overlay",
			p->squashfs ? p->squashfs : p->lowers.v[0]);
	return -code;
}

/* NULL if there are trees besides the plan's, or if paths cannot name them. */
static char *path_options(const struct plan *p, const struct overlay *o)
{
	size_t len =
		sizeof("lowerdir=,upperdir=/upper,workdir=/work,userxattr") + 2 * strlen(o->place);
	char *options, *at;

	if (p->squashfs || p->root == PLAN_ROOT_KEPT || covers_tree(p, o->place))
		return NULL;
	for (size_t i = 0; i < p->lowers.n; i++) {
		len += strlen(p->lowers.v[i]) + 1;
		if (strpbrk(p->lowers.v[i], ":,\\"))
			return NULL;
	}
	if (len > OPTIONS_MAX)
		return NULL;
	options = xmalloc(len);
	at = stpcpy(options, "lowerdir=");
	for (size_t i = 0; i < p->lowers.n; i++)
		at += sprintf(at, i ? ":%s" : "%s", p->lowers.v[i]);
	sprintf(at, ",upperdir=%s/upper,workdir=%s/work,userxattr", o->place, o->place);
	return options;
}

/* Mount over the scratch itself. Returns 1 if it is mounted; otherwise the caller retries with
 * descriptors, which reports the error. */
static int mount_by_paths(const struct plan *p, struct overlay *o)
{
	auto_free char *options = path_options(p, o);
	auto_free char *mark = options ? container_mark(p) : NULL;

	if (!options || mount(mark, o->place, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return 0;
	o->root = open(o->place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	o->covers_scratch = o->root >= 0;
	return o->covers_scratch;
}

static int mount_by_descriptors(const struct plan *p, struct overlay *o)
{
	auto_free char *options = xmalloc(o->trees.n * 12 + 128);
	char *at = stpcpy(options, "lowerdir=");

	for (size_t i = 0; i < o->trees.n; i++)
		at += sprintf(at, i ? ":%d" : "%d", o->trees.fds[i]);
	sprintf(at, ",upperdir=%d/upper,workdir=%d/work,userxattr", o->scratch, o->scratch);
	return overlay_mount_root(p, o, options);
}

int overlay_mount(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	int r;

	if (mount_by_paths(p, o))
		return 0;
	r = mount_by_descriptors(p, o);
	if (r == -ESTALE && reopen_trees(p, o) == 0)
		r = mount_by_descriptors(p, o);
	return r < 0 ? overlay_failed(p, -r, err) : 0;
}

int overlay_cover_image(struct overlay *o)
{
	return o->image >= 0 &&
		move_mount(o->root, "", o->image, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

int overlay_mount_itself(struct overlay *o, struct mlr_error *err)
{
	unsigned flags = PLAN_NOSUID | PLAN_NODEV;
	auto_close int tree = bind_take(o->trees.fds[0], ".", flags), place = -1;

	if (tree < 0)
		return mlr_fail(err, -tree, "clone the root: %s", strerror(-tree));
	if (mkdirat(o->scratch, "root", 0755) < 0)
		return mlr_fail_errno(err, "make 'root' in the scratch tmpfs");
	place = openat(o->scratch, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return mlr_fail_errno(err, "open 'root' in the scratch tmpfs");
	TRY(mlr_result(err, bind_put(tree, place, flags), "mount the root"));
	o->root = openat(o->scratch, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->root < 0 ? mlr_fail_errno(err, "open the root") : 0;
}

void overlay_done(struct overlay *o)
{
	fd_close(&o->scratch);
	fd_close(&o->upper);
	fd_close(&o->root);
	fd_close(&o->image);
	fd_close(&o->command);
	fd_close(&o->kept);
	stack_done(&o->trees);
	*o = (struct overlay)OVERLAY_INIT;
}
