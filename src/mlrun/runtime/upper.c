#include "runtime/upper.h"

#include "base/file_owner.h"
#include "runtime/accounts.h"

/* A directory on the way to a target. */
struct dir {
	char *path; /* "" is the root, "/etc" */
	struct stack image;
	int fd;         /* in the upper layer, O_PATH; -1: left to the overlay */
	int from_image; /* the image has it, and st is set */
	int covered;    /* something is mounted on it: look no further */
	struct stat st;
};

struct upper {
	const struct plan *plan;
	struct source *src;
	struct dir *dirs;
	size_t n;
	int scratch;
	int only_images; /* make only directories that the image has */
	int empty;       /* the scratch has an empty file of this name */
	struct mlr_error *err;
};

static void upper_done(struct upper *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->dirs[i].path);
		stack_done(&u->dirs[i].image);
		fd_close(&u->dirs[i].fd);
	}
	free(u->dirs);
}

/* Add an empty entry and return its index. */
static size_t add_dir(struct upper *u, const char *path, size_t len)
{
	*xadd(u->dirs, u->n) =
		(struct dir){ .path = xstrndup(path, len), .image = { 0 }, .fd = -1 };
	return u->n - 1;
}

static size_t parent_length(const char *path, size_t len)
{
	while (len > 0 && path[len - 1] != '/')
		len--;
	return len > 0 ? len - 1 : 0;
}

/* Copy a fake root's record of a directory, as overlayfs would do, if the upper layer can have it,
 * and if anybody can come to read it: the paths below /proc take 5 us for each of four calls. */
static void keep_owner(const struct plan *p, int from, int to)
{
	char path[32];
	struct file_owner o;

	if (p->root == PLAN_ROOT_MEMORY && !p->id.is_fake_root)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", from);
	if (file_owner_get(path, &o) <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
	(void)file_owner_set(path, &o);
}

static int make_dir(struct upper *u, size_t parent, const char *name, struct dir *d)
{
	enum stack_kind kind = stack_down(&u->dirs[parent].image, name, &d->image, &d->st);
	int at = u->dirs[parent].fd, fd;
	mode_t mode;

	if (kind != STACK_DIR && (kind != STACK_ABSENT || u->only_images))
		return -1;
	d->from_image = kind == STACK_DIR;
	mode = d->from_image ? plan_open_mode(u->plan, d->path, d->st.st_mode & 01777) : 0755;
	if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
		return -1;
	fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && d->from_image)
		keep_owner(u->plan, d->image.fds[0], fd);
	return fd;
}

/* Find a directory by the first len bytes of a clean path, or make it in the upper layer. */
static size_t find_dir(struct upper *u, const char *path, size_t len)
{
	size_t up, parent, i;

	for (i = u->n; i-- > 0;)
		if (!u->dirs[i].covered && strncmp(u->dirs[i].path, path, len) == 0 &&
			u->dirs[i].path[len] == '\0')
			return i;
	up = parent_length(path, len);
	parent = find_dir(u, path, up);
	i = add_dir(u, path, len);
	if (u->dirs[parent].fd >= 0) {
		auto_free char *name = xstrndup(path + up + 1, len - up - 1);
		struct dir d = u->dirs[i];

		d.fd = make_dir(u, parent, name, &d);
		u->dirs[i] = d;
	}
	return i;
}

/* The directory that a target lies in, or NULL if it is left to the overlay; name gets the last
 * component. */
static const struct dir *find_parent(struct upper *u, const char *target, const char **name)
{
	size_t up = parent_length(target, strlen(target)), i = find_dir(u, target, up);

	*name = target + up + 1;
	return u->dirs[i].fd >= 0 ? &u->dirs[i] : NULL;
}

/* Would an earlier mount cover this target? A tmpfs of ours covers itself alone: upper_fill() makes
 * what lies in it. */
static int is_covered(const struct upper *u, size_t i, const char *target)
{
	while (i-- > 0) {
		const struct plan_mount *m = &u->plan->mounts[i];

		if (!plan_kind_covers(m->kind) || u->src[i].absent ||
			!path_below(target, m->target))
			continue;
		return m->kind != PLAN_TMPFS || m->options || strcmp(target, m->target) == 0;
	}
	return 0;
}

/* The lowest tree has the directories that every image has. If a higher tree hides one, it is made
 * when something is mounted on it. */
static int lowest_has(const struct dir *d, const char *name)
{
	struct stat st;

	return d->image.n > 1 &&
		fstatat(d->image.fds[d->image.n - 1], name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISDIR(st.st_mode);
}

/* Make an empty file to mount on. All are links to one file, as a link costs less than a file. */
static int make_file(struct upper *u, const struct dir *d, const char *name)
{
	if (u->empty && linkat(u->scratch, "empty", d->fd, name, 0) == 0)
		return 0;
	if (mknodat(d->fd, name, S_IFREG | 0644, 0) < 0)
		return -1;
	u->empty = u->empty || linkat(d->fd, name, u->scratch, "empty", 0) == 0;
	return 0;
}

/* Make a mount point, unless the image has one. Returns whether it was missing. */
static int make_place(struct upper *u, const struct dir *d, const char *name, int is_dir)
{
	if ((is_dir && lowest_has(d, name)) ||
		stack_look(&d->image, name, NULL, NULL) != STACK_ABSENT)
		return 0;
	return (is_dir ? mkdirat(d->fd, name, 0755) : make_file(u, d, name)) == 0;
}

/* Add an empty directory in memory, in which later entries are made. */
static int add_tmpfs(struct upper *u, size_t i, int at, const char *name)
{
	const char *target = u->plan->mounts[i].target;
	size_t d;

	for (size_t k = 0; k < u->n; k++)
		u->dirs[k].covered |= path_below(u->dirs[k].path, target);
	d = add_dir(u, target, strlen(target));
	u->dirs[d].fd = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return u->dirs[d].fd < 0 ? mlr_fail_errno(u->err, "open a directory in memory") : 0;
}

int upper_make_source(const struct plan *p, size_t i, int scratch, struct mlr_error *err)
{
	const struct plan_mount *m = &p->mounts[i];
	auto_close int fd = -1;
	char name[32];
	int r = 0;

	snprintf(name, sizeof(name), "mount%zu", i);
	if (m->kind == PLAN_TMPFS) {
		r = mkdirat(scratch, name, 0755) < 0 ? -errno : 0;
		return mlr_result(err, r, "make a directory in the scratch tmpfs");
	}
	fd = openat(scratch, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : file_write_all(fd, m->text, m->text_size);
	if (r == 0 && fchmod(fd, m->mode) < 0)
		r = -errno;
	if (r == 0 && (m->uid || m->gid))
		(void)file_owner_set_fd(fd, &(struct file_owner){ m->uid, m->gid, 0 });
	return mlr_result(err, r, "write '%s' in memory", m->target);
}

/* Make a directory in the scratch, to be mounted on its target. */
static int make_tmpfs(struct upper *u, size_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "mount%zu", i);
	TRY(upper_make_source(u->plan, i, u->scratch, u->err));
	return add_tmpfs(u, i, u->scratch, name);
}

/* Can a new directory in the upper layer replace this mount? Both are empty, and in memory. */
static int needs_no_mount(const struct upper *u, size_t i)
{
	return u->plan->mounts[i].kind == PLAN_TMPFS && !u->plan->mounts[i].options &&
		u->plan->mounts[i].flags == 0 && u->src[i].fresh &&
		u->plan->root == PLAN_ROOT_MEMORY;
}

/* Put our file in place of anything but a directory. Returns 1 if it is in place. */
static int put_file(const struct dir *d, const char *name, const void *buf, size_t len)
{
	auto_close int fd = -1;

	if (stack_look(&d->image, name, NULL, NULL) == STACK_DIR)
		return 0;
	fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST && unlinkat(d->fd, name, 0) == 0)
		fd = openat(
			d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd >= 0 && file_write_all(fd, buf, len) == 0;
}

static int put_copy(struct upper *u, size_t i, const struct dir *d, const char *name)
{
	const struct plan_mount *m = &u->plan->mounts[i];
	auto_free char *buf = NULL;
	ssize_t len = source_read(&u->src[i], m, &buf, u->err);

	if (len < 0)
		return (int)len;
	u->src[i].done = put_file(d, name, buf, (size_t)len);
	return 0;
}

static void put_link(struct upper *u, size_t i, const struct dir *d, const char *name)
{
	enum stack_kind kind = stack_look(&d->image, name, NULL, NULL);
	int replace = u->plan->mounts[i].flags & PLAN_REPLACE && kind != STACK_DIR &&
		kind != STACK_UNKNOWN;

	if (kind == STACK_ABSENT || replace)
		u->src[i].done = symlinkat(u->plan->mounts[i].source, d->fd, name) == 0;
	else
		u->src[i].done = kind != STACK_UNKNOWN;
}

static int fill_one(struct upper *u, size_t i)
{
	const struct plan_mount *m = &u->plan->mounts[i];
	const struct dir *d;
	const char *name;

	if (u->src[i].absent || m->kind == PLAN_SEAL)
		return 0;
	d = is_covered(u, i, m->target) ? NULL : find_parent(u, m->target, &name);
	if (d && m->kind == PLAN_COPY)
		return put_copy(u, i, d, name);
	if (d && m->kind == PLAN_FILE && !m->mode) {
		u->src[i].done = put_file(d, name, m->text, m->text_size);
		return 0;
	}
	if (d && m->kind == PLAN_SYMLINK)
		put_link(u, i, d, name);
	else if (d)
		u->src[i].fresh = make_place(u, d, name, u->src[i].is_dir);
	if (d && needs_no_mount(u, i)) {
		u->src[i].done = 1;
		return add_tmpfs(u, i, d->fd, name);
	}
	if (m->kind == PLAN_FILE && m->mode)
		return upper_make_source(u->plan, i, u->scratch, u->err);
	return m->kind == PLAN_TMPFS && !m->options ? make_tmpfs(u, i) : 0;
}

/* Read the image's file, if it is one. Returns 0, or -1 if it is left to the overlay. */
static int read_account(
	const struct dir *d, const char *path, const char *name, char **ret, struct mlr_error *err)
{
	size_t at = 0;

	switch (stack_look(&d->image, name, &at, NULL)) {
	case STACK_ABSENT:
		return 0;
	case STACK_FILE:
		*ret = accounts_read(d->image.fds[at], name);
		return *ret ? 0 : -1;
	case STACK_DIR:
		return accounts_is_directory(path, err);
	default:
		return -1;
	}
}

static int put_accounts(struct upper *u, int *done)
{
	if (!u->plan->id.name)
		return 0;
	for (size_t i = 0; i < ACCOUNTS_FILES; i++) {
		const struct accounts_file *f = &accounts_files[i];
		auto_free char *old = NULL, *text = NULL;
		const char *name;
		const struct dir *d = find_parent(u, f->path, &name);
		int r = d ? read_account(d, f->path, name, &old, u->err) : -1;

		if (r == -EISDIR)
			return r;
		if (r < 0)
			return 0;
		text = f->make(old, &u->plan->id);
		if (text && !put_file(d, name, text, strlen(text)))
			return 0;
	}
	*done = 1;
	return 0;
}

static void keep_owner_of(
	const struct plan *p, const struct stack *image, size_t at, int upper, const char *name)
{
	auto_close int from = openat(image->fds[at], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	auto_close int to = openat(upper, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (from >= 0 && to >= 0)
		keep_owner(p, from, to);
}

/* Make directories of plan->open that the image has; overlayfs shows the upper layer's mode. */
static void open_dirs(struct upper *u)
{
	const struct plan *p = u->plan;

	u->only_images = 1;
	for (size_t i = 0; i < p->n_open; i++) {
		const char *path = p->open[i].path, *name;
		const struct dir *d = path[1] && !is_covered(u, p->n_mounts, path)
			? find_parent(u, path, &name)
			: NULL;
		struct stat st;
		size_t at;

		if (!d || stack_look(&d->image, name, &at, &st) != STACK_DIR ||
			mkdirat(d->fd, name, p->open[i].mode) < 0)
			continue;
		keep_owner_of(p, &d->image, at, d->fd, name);

		const struct timespec times[2] = { st.st_atim, st.st_mtim };

		utimensat(d->fd, name, times, AT_SYMLINK_NOFOLLOW);
	}
}

/* Runs last, since making entries changes a directory's times. Best effort: what cannot be set here
 * cannot be copied up either. */
static void restore_times(const struct upper *u)
{
	for (size_t i = u->n; i-- > 0;) {
		const struct dir *d = &u->dirs[i];
		const struct timespec times[2] = { d->st.st_atim, d->st.st_mtim };

		if (d->fd >= 0 && d->from_image && utimensat(d->fd, ".", times, 0) < 0)
			mlr_debug("times of '%s' in the upper layer: %s", d->path, strerror(errno));
	}
}

int upper_fill(const struct plan *p, struct source *src, const struct stack *image, int upper,
	int scratch, int *accounts, struct mlr_error *err)
{
	auto_call(upper_done) struct upper u = {
		.plan = p, .src = src, .scratch = scratch, .err = err
	};
	size_t top = add_dir(&u, "", 0);
	const char *name;
	int r;

	for (size_t i = 0; i < image->n; i++)
		stack_take(&u.dirs[top].image, image->fds[i]);
	u.dirs[top].fd = upper;
	u.dirs[top].from_image = fstat(image->fds[0], &u.dirs[top].st) == 0;
	keep_owner(p, image->fds[0], upper);
	r = put_accounts(&u, accounts);
	for (size_t i = 0; r == 0 && i < p->n_mounts; i++)
		r = fill_one(&u, i);
	if (r == 0 && !is_covered(&u, p->n_mounts, p->workdir) && strcmp(p->workdir, "/") != 0) {
		const struct dir *d = find_parent(&u, p->workdir, &name);

		if (d)
			make_place(&u, d, name, 1);
	}
	if (r == 0)
		open_dirs(&u);
	restore_times(&u);
	/* The caller owns these two. */
	u.dirs[top].image.n = 0;
	u.dirs[top].fd = -1;
	return r;
}
