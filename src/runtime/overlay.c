/*
 * In the scratch tmpfs: upper and work directories of the overlay, and a short link to each lower
 * tree, since overlay's option string is limited to a page.
 */
#include "runtime/overlay.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "runtime/container.h"
#include "runtime/runtime.h"
#include "runtime/squash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * A link in the scratch for every lower tree. The links go through /proc/self/fd, because the
 * store may lie below the directory that the scratch covers; the descriptors are of this mount
 * namespace, as overlayfs asks.
 */
static int link_lowers(const int *fds, int scratch, struct mlr_error *err)
{
	for (size_t i = 0; fds[i] >= 0; i++) {
		char name[24], text[32];

		snprintf(name, sizeof(name), "%zu", i);
		snprintf(text, sizeof(text), "/proc/self/fd/%d", fds[i]);
		if (symlinkat(text, scratch, name) < 0)
			return mlr_fail_errno(err, "make a link for a layer");
	}
	return 0;
}

int overlay_mount_scratch(struct overlay *o, struct mlr_error *err)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/run", "/mnt" };
	static const char *const dirs[] = { "root", "upper", "work" };
	const char *place = NULL;
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(places) && !place; i++)
		if (stat(places[i], &st) == 0 && S_ISDIR(st.st_mode))
			place = places[i];
	if (!place)
		return mlr_fail(err, ENOENT, "none of /tmp, /var/tmp, /run, /mnt is a directory");
	if (mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0) {
		int r = mlr_fail_errno(err, "mount a tmpfs in a user namespace");

		runtime_hint_userns("/", err);
		return r;
	}
	o->scratch = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->scratch < 0)
		return mlr_fail_errno(err, "open the scratch tmpfs on '%s'", place);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(o->scratch, dirs[i], 0755) < 0)
			return mlr_fail_errno(err, "make '%s' in the scratch tmpfs", dirs[i]);
	return 0;
}

static int overlay_failed(const struct plan *p, struct mlr_error *err)
{
	int code = errno;
	struct utsname u;

	uname(&u);
	if (p->squashfs)
		mlr_fail(err, code, "mount an overlay of the image: %s", strerror(code));
	else
		mlr_fail(err, code, "mount an overlay of the image's %zu %s: %s", p->lowers.n,
			p->lowers.n == 1 ? "tree" : "trees", strerror(code));
	if (code == ENODEV)
		mlr_hint(err,
			"the kernel has no overlayfs; an administrator can load it: modprobe overlay");
	else if (code == EPERM)
		mlr_hint(err, "overlay mounts of ordinary users need Linux 5.11, this is %s",
			u.release);
	else if (code == EINVAL)
		mlr_hint(err,
			"the file system that holds '%s' may not serve as an overlay's lower layer, or "
			"another one is mounted below it; mlrun pull --format=squashfs makes one file "
			"of the image, which may lie anywhere",
			p->squashfs ? p->squashfs : p->lowers.v[0]);
	return -code;
}

/* "lowerdir=0:1:2,…": names relative to the scratch, which is the working directory meanwhile. */
static char *overlay_options(size_t n)
{
	char *s = xmalloc(n * 8 + 80), *p = stpcpy(s, "lowerdir=");

	for (size_t i = 0; i < n; i++)
		p += sprintf(p, i ? ":%zu" : "%zu", i);
	strcpy(p, ",upperdir=upper,workdir=work,userxattr");
	return s;
}

/* What a named container has; nothing at first. */
static int open_kept(const struct plan *p, struct overlay *o, int *upper, struct mlr_error *err)
{
	o->kept = open(p->kept, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o->kept < 0)
		return mlr_fail_errno(err, "open the container's directory '%s'", p->kept);
	*upper = openat(o->kept, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*upper < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "open '%s/upper'", p->kept);
	return 0;
}

/* With room for one more. */
static int open_lowers(const struct plan *p, struct overlay *o, struct mlr_error *err)
{
	size_t n = 0;
	int r = 0;

	o->lowers = xcalloc(p->lowers.n + 3, sizeof(int));
	o->lowers[0] = -1;
	if (p->root == PLAN_ROOT_KEPT)
		r = open_kept(p, o, &o->lowers[0], err);
	n = o->lowers[0] >= 0;
	o->kept_is_lower = (int)n;
	o->lowers[n] = -1;
	for (size_t i = 0; r == 0 && i < p->lowers.n; i++) {
		int fd = open(p->lowers.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return mlr_fail_errno(err, "open the image's tree '%s'", p->lowers.v[i]);
		o->lowers[n++] = fd;
		o->lowers[n] = -1;
	}
	return r;
}

/*
 * Give a directory of the upper layer the mode and times that the image's has; the topmost tree
 * with that name decides. Returns 0 when that is no directory.
 */
static int copy_attributes(int upper, const int *lowers, const char *path)
{
	auto_close int fd = -1;
	struct stat st;

	while (*lowers >= 0 && (fd = file_open_in_root(*lowers, path, O_PATH | O_NOFOLLOW, 0)) < 0)
		lowers++;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (mkdirat(upper, path, 0700) < 0 && errno != EEXIST)
		return 0;

	const struct timespec times[2] = { st.st_atim, st.st_mtim };

	/* Best effort: what cannot be set here cannot be copied up either. */
	if (fchmodat(upper, path, st.st_mode & 01777, 0) < 0 ||
		utimensat(upper, path, times, 0) < 0)
		mlr_debug("attributes of '%s' in the upper layer: %s", path, strerror(errno));
	return 1;
}

/*
 * Make the image's directories that lead to a target in the upper layer beforehand. Overlayfs
 * merges them with the lower ones, whereas it could not copy up a directory of another user or
 * group, for whom this user namespace has no id (an administrator's image, a group changed by
 * newgrp).
 */
static void merge_parents(int upper, const int *lowers, const char *target)
{
	for (const char *s = strchr(target + 1, '/'); s; s = strchr(s + 1, '/')) {
		auto_free char *dir = xstrndup(target + 1, (size_t)(s - target - 1));
		char *slash;

		if (!copy_attributes(upper, lowers, dir))
			return;
		/* Making it has changed the times of the directory above. */
		slash = strrchr(dir, '/');
		if (slash) {
			*slash = '\0';
			copy_attributes(upper, lowers, dir);
		}
	}
}

static int same_parent(const char *a, const char *b)
{
	size_t len = (size_t)(strrchr(a, '/') - a);

	return (size_t)(strrchr(b, '/') - b) == len && strncmp(a, b, len) == 0;
}

static int merge_directories(
	const struct plan *p, const struct overlay *o, const int *lowers, struct mlr_error *err)
{
	auto_close int upper = openat(o->scratch, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *last = "/etc/passwd"; /* written whatever the plan says */

	if (upper < 0)
		return mlr_fail_errno(err, "open the upper layer");
	merge_parents(upper, lowers, last);
	for (size_t i = 0; i < p->n_mounts; i++) {
		const char *target = p->mounts[i].target;

		if (!same_parent(target, last))
			merge_parents(upper, lowers, target);
		last = target;
	}
	merge_parents(upper, lowers, p->workdir);
	return 0;
}

/* The upper layer's top is the container's "/": it gets the image's mode and times. */
static int copy_root_attributes(int lower, int scratch, struct mlr_error *err)
{
	struct stat st;

	if (fstat(lower, &st) < 0 || fchmodat(scratch, "upper", st.st_mode & 01777, 0) < 0)
		return mlr_fail_errno(err, "give the root the image's mode");

	const struct timespec times[2] = { st.st_atim, st.st_mtim };

	if (utimensat(scratch, "upper", times, 0) < 0)
		return mlr_fail_errno(err, "give the root the image's times");
	return 0;
}

static size_t count(const int *fds)
{
	size_t n = 0;

	while (fds[n] >= 0)
		n++;
	return n;
}

/* A squashfs file becomes the lower tree. */
static int mount_image(const struct plan *p, int server, const struct overlay *o, int *lowers,
	struct mlr_error *err)
{
	size_t n = count(lowers);
	char path[48];
	int r;

	if (mkdirat(o->scratch, "image", 0755) < 0)
		return mlr_fail_errno(err, "make 'image' in the scratch tmpfs");
	snprintf(path, sizeof(path), "/proc/self/fd/%d/image", o->scratch);
	r = squash_mount(p, server, path, err);
	if (r < 0)
		return r;
	lowers[n] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (lowers[n] < 0)
		return mlr_fail_errno(err, "open the image's root");
	lowers[n + 1] = -1;
	return 0;
}

static int mount_overlay(
	const struct plan *p, struct overlay *o, const int *lowers, struct mlr_error *err)
{
	auto_free char *options = overlay_options(count(lowers));
	int r;

	r = link_lowers(lowers, o->scratch, err);
	if (r < 0)
		return r;
	r = merge_directories(p, o, lowers, err);
	if (r < 0)
		return r;
	r = copy_root_attributes(lowers[0], o->scratch, err);
	if (r < 0)
		return r;
	if (fchdir(o->scratch) < 0)
		return mlr_fail_errno(err, "enter the scratch tmpfs");
	if (overlay_mount_root(p, o, options) < 0)
		return overlay_failed(p, err);
	return 0;
}

int overlay_mount_root(const struct plan *p, struct overlay *o, const char *options)
{
	auto_free char *mark = container_mark(p);

	if (mount(mark, "root", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	o->root = open("root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return o->root < 0 ? -errno : 0;
}

int overlay_mount(
	const struct plan *p, int server, struct overlay *ret, struct mlr_error *err)
{
	auto_call(overlay_done) struct overlay o = OVERLAY_INIT;
	int r;

	if (p->lowers.n == 0 && !p->squashfs)
		return mlr_fail(err, EINVAL, "the image has no layers");
	r = open_lowers(p, &o, err);
	if (r < 0)
		return r;
	r = overlay_mount_scratch(&o, err);
	if (r == 0 && p->squashfs)
		r = mount_image(p, server, &o, o.lowers, err);
	if (r < 0)
		return r;
	r = mount_overlay(p, &o, o.lowers, err);
	if (r < 0)
		return r;
	*ret = o;
	o = (struct overlay)OVERLAY_INIT;
	return 0;
}

void overlay_done(struct overlay *o)
{
	if (o->scratch >= 0)
		close(o->scratch);
	if (o->root >= 0)
		close(o->root);
	if (o->kept >= 0)
		close(o->kept);
	for (int *fd = o->lowers; fd && *fd >= 0; fd++)
		close(*fd);
	free(o->lowers);
	*o = (struct overlay)OVERLAY_INIT;
}
