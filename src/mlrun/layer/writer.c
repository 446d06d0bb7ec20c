#include "layer/writer.h"

#include "base/owners_file.h"
#include "base/tighten.h"
#include "layer/path.h"

#include <sys/xattr.h>

/* --- directories ------------------------------------------------------------------- */

#define LAYER_DIRS_HIDES 1 /* a mark of a name: the directory has whiteouts */

/* memory: the limit, in bytes. */
static void layer_dirs_init(struct layer_dirs *d, size_t memory)
{
	*d = (struct layer_dirs){ .t = layer_names_new(memory), .memory = memory };
}

static void layer_dirs_done(struct layer_dirs *d)
{
	layer_names_free(d->t);
	strv_done(&d->open);
	memset(d, 0, sizeof(*d));
}

int layer_dirs_get(
	struct layer_dirs *d, const char *real, struct layer_name **ret, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	int r = 0;

	if (!d->top)
		d->top = layer_names_top(d->t, &why);
	r = d->top ? layer_names_get(d->t, d->top, real, ret, &why) : -why.code;
	if (r == -EFBIG)
		return mlr_fail(err, EFBIG, "more directories than %zu bytes of memory can hold",
			d->memory);
	return r < 0 ? mlr_pass(err, -r, why.text) : 0;
}

/* Forget the directory that was at this path, if any, and those below. */
static void layer_dirs_drop(struct layer_dirs *d, const char *real)
{
	struct layer_name *n = d->top ? layer_names_at(d->t, d->top, real) : NULL;

	if (n && n != d->top)
		layer_names_remove(d->t, n);
}

/* Remove whiteouts from an opaque directory: they hide nothing, but overlayfs would list them. */
static int drop_idle_whiteouts(int fd, const char *path, struct mlr_error *err)
{
	auto_dir DIR *d = layer_opaque_is(fd) ? file_open_dir(fd, ".", 0) : NULL;
	struct stat sb;

	for (struct dirent *e; (e = file_next(d));)
		if (fstatat(fd, e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			layer_whiteout_is(&sb) && unlinkat(fd, e->d_name, 0) < 0)
			return mlr_fail_errno(err, "remove the whiteout '%s/%s'", path, e->d_name);
	return 0;
}

/* Note a directory that everybody may write to: in the tree only its owner may. */
static void note_open(struct layer_dirs *d, const struct layer_name *n, const char *path)
{
	if ((n->inode->mode & S_IWOTH) && d->open.n < LAYER_OPEN_MAX)
		strv_addf(&d->open, "%o %s", (unsigned)n->inode->mode & 01777, path);
}

static int finish(struct layer_dirs *d, int root, const struct layer_name *n, struct mlr_error *err)
{
	/* The owner must be able to read the layer and to make a container of it. */
	const mode_t least = n == d->top ? S_IRUSR | S_IXUSR : 0;
	mode_t mode = (n->inode->mode & ~(mode_t)TIGHTEN_BITS) | least;
	const struct timespec mtime = { n->inode->mtime, n->inode->mtime_nsec },
			      ts[2] = { mtime, mtime };
	auto_free char *path = layer_names_path(n);
	auto_close int fd = file_open_in_root(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct stat sb;

	if (fd < 0)
		return mlr_result(err, fd, "open directory '%s'", path);
	if (n->marks & LAYER_DIRS_HIDES)
		TRY(drop_idle_whiteouts(fd, path, err));
	if (futimens(fd, ts) < 0)
		return mlr_fail_errno(err, "set the time of directory '%s'", path);
	if (!n->named)
		return 0;
	note_open(d, n, path);
	if (fstat(fd, &sb) < 0 || ((sb.st_mode & 07777) != mode && fchmod(fd, mode) < 0))
		return mlr_fail_errno(err, "set the mode of directory '%s'", path);
	return 0;
}

static int apply(
	struct layer_dirs *d, int root, const struct layer_name *dir, struct mlr_error *err)
{
	for (const struct layer_name *n = dir->child; n; n = n->next)
		TRY(apply(d, root, n, err));
	return finish(d, root, dir, err);
}

/* Finish the tree: remove whiteouts from opaque directories, set the mode of every named directory,
 * without the bits that let other users write, and its time, and the time 0 of others; the deepest
 * first. The top stays open to its owner. Returns 0 or -errno. */
static int layer_dirs_apply(struct layer_dirs *d, int root, struct mlr_error *err)
{
	return apply(d, root, d->top, err);
}

static int each_closed(const struct layer_name *dir,
	int (*fn)(void *ctx, const char *real, struct mlr_error *err), void *ctx,
	struct mlr_error *err)
{
	if (dir->parent && dir->named && !(dir->inode->mode & S_IXUSR)) {
		auto_free char *path = layer_names_path(dir);

		return fn(ctx, path, err);
	}
	for (const struct layer_name *n = dir->child; n; n = n->next)
		TRY(each_closed(n, fn, ctx, err));
	return 0;
}

/* Call fn with every directory that its owner may not search after layer_dirs_apply(), unless it is
 * below another such. Returns 0 or what fn returned. */
static int layer_dirs_each_closed(const struct layer_dirs *d,
	int (*fn)(void *ctx, const char *real, struct mlr_error *err), void *ctx,
	struct mlr_error *err)
{
	return each_closed(d->top, fn, ctx, err);
}

static void collect(const struct layer_name *dir, struct strv *implicit, struct strv *hiding)
{
	auto_free char *path = dir->implied || dir->marks ? layer_names_path(dir) : NULL;

	if (dir->implied)
		strv_add(implicit, path);
	if (dir->marks & LAYER_DIRS_HIDES)
		strv_add(hiding, path);
	for (const struct layer_name *n = dir->child; n; n = n->next)
		collect(n, implicit, hiding);
}

void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding)
{
	collect(d->top, implicit, hiding);
	strv_sort(implicit);
	strv_sort(hiding);
}

void layer_writer_init(struct layer_writer *w, int root, size_t dir_memory)
{
	memset(w, 0, sizeof(*w));
	w->root = root;
	w->parent_fd = -1;
	layer_dirs_init(&w->dirs, dir_memory);
}

void layer_writer_done(struct layer_writer *w)
{
	fd_close(&w->parent_fd);
	w->parent_fd = -1;
	layer_dirs_done(&w->dirs);
	strv_done(&w->owners);
}

/* An opaque directory is not used implicitly. */
static int note_made(void *ctx, const char *real, int opaque, struct mlr_error *err)
{
	struct layer_writer *w = ctx;
	struct layer_name *n;

	TRY(layer_dirs_get(&w->dirs, real, &n, err));
	n->implied = !opaque;
	return 0;
}

/* Open a directory, usually by one system call. A walk makes missing ones, and finds the real path
 * of those behind symlinks. */
static int open_parent(struct layer_writer *w, const char *dir, struct mlr_error *err)
{
	int fd = file_open_beneath(w->root, *dir ? dir : ".", O_PATH | O_DIRECTORY);

	if (fd >= 0)
		strcpy(w->parent_real, dir);
	else if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENOSYS)
		return layer_path_walk(w->root, dir, note_made, w, w->parent_real, err);
	else
		return mlr_result(err, fd, "directory '%s'", dir);
	return fd;
}

/* Open the directory that the first len bytes of path name, as the parent. */
static int enter_dir(struct layer_writer *w, const char *path, size_t len, struct mlr_error *err)
{
	if (w->parent_known && strncmp(w->parent, path, len) == 0 && w->parent[len] == '\0')
		return 0;

	w->parent_known = 0;
	if (w->parent_fd >= 0)
		close(take_fd(&w->parent_fd));
	memcpy(w->parent, path, len);
	w->parent[len] = '\0';
	TRY(w->parent_fd = open_parent(w, w->parent, err));
	w->parent_known = 1;
	w->parent_gives = 0;
	return 0;
}

/* Open the directory that path is in, as the parent; *name becomes the last component. path is not
 * the top. */
static int enter(struct layer_writer *w, const char *path, const char **name, struct mlr_error *err)
{
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	return enter_dir(w, path, slash ? (size_t)(slash - path) : 0, err);
}

/* The path, without symlinks, of a name in the parent, to free(). */
static char *real_path(const struct layer_writer *w, const char *name)
{
	return xasprintf("%s%s%s", w->parent_real, *w->parent_real ? "/" : "", name);
}

/* Remove what exists at name. The parent's path may have led through it, so it is not kept. */
static int make_way(struct layer_writer *w, const char *name, struct mlr_error *err)
{
	auto_free char *real = real_path(w, name);

	w->parent_known = 0;
	if (w->recorder)
		TRY(layer_recorder_keep(w->recorder, w->parent_fd, name, real, err));
	layer_dirs_drop(&w->dirs, real);
	return file_remove_tree(w->parent_fd, name, err);
}

/* After a failed attempt to make name: 1 try again, 0 it exists already, or -errno. */
static int retry(
	struct layer_writer *w, int r, const char *name, const char *what, struct mlr_error *err)
{
	if (r >= 0)
		return 0;
	if (errno != EEXIST)
		return mlr_fail_errno(err, "create %s", what);
	r = make_way(w, name, err);
	return r < 0 ? r : 1;
}

static int set_time(struct layer_writer *w, const char *name, const struct timespec *mtime,
	struct mlr_error *err)
{
	struct timespec ts[2] = { *mtime, *mtime };

	if (utimensat(w->parent_fd, name, ts, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "set its time");
	return 0;
}

static int check_not_top(const char *path, const char *what, struct mlr_error *err)
{
	if (*path)
		return 0;
	return mlr_fail(err, EPROTO, "%s that would replace the top directory", what);
}

/* The mode in the tree: only the owner may write. The record has the original mode. */
static mode_t tree_mode(const struct layer_member *m)
{
	return m->mode & ~TIGHTEN_BITS;
}

/* The mode to create a file with: setting xattrs requires that it is writable. */
static mode_t file_mode(const struct layer_member *m)
{
	return (tree_mode(m) & 0777) | S_IWUSR;
}

int layer_writer_file(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	mode_t mode = file_mode(m);
	const char *name;
	int fd, r;

	TRY(check_not_top(m->path, "a file", err));
	TRY(enter(w, m->path, &name, err));
	fd = openat(w->parent_fd, name, flags, mode);
	r = retry(w, fd, name, "file", err);
	if (r <= 0)
		return r < 0 ? r : fd;
	fd = openat(w->parent_fd, name, flags, mode);
	return fd < 0 ? mlr_fail_errno(err, "create file") : fd;
}

/* The mode that the member says, if the tree has another. */
static mode_t mode_lost(const struct layer_member *m)
{
	mode_t mode = m->mode | m->set_ids;

	return mode & TIGHTEN_BITS ? mode : 0;
}

static int has_owner(const struct layer_member *m)
{
	return m->uid || m->gid || mode_lost(m);
}

/* Record an owner and a mode that the file does not get. */
static void set_owner(int fd, const struct layer_member *m)
{
	const struct file_owner o = { (uint32_t)m->uid, (uint32_t)m->gid, mode_lost(m) };

	if (has_owner(m) && file_owner_set_fd(fd, &o) < 0)
		mlr_debug("layer: owner of '%s': %s, ignoring", m->path, strerror(errno));
}

static void set_xattrs(int fd, const struct layer_member *m)
{
	set_owner(fd, m);
	for (size_t i = 0; i < m->n_xattrs; i++) {
		const struct layer_xattr *x = &m->xattrs[i];

		if (fsetxattr(fd, x->name, x->value, x->size, 0) < 0)
			mlr_debug("layer: xattr '%s' of '%s': %s, ignoring", x->name, m->path,
				strerror(errno));
	}
}

/*
 * Set a file's mode. The umask or an inherited ACL may take bits away; the first file of a
 * directory shows which ones the next ones get.
 */
static int set_file_mode(
	struct layer_writer *w, int fd, const struct layer_member *m, struct mlr_error *err)
{
	mode_t asked = file_mode(m);
	struct stat sb;

	if (asked == tree_mode(m) && (asked & ~w->parent_gives) == 0)
		return 0;
	if (fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "look at its mode");
	if ((sb.st_mode & 07777 & ~asked) == 0)
		w->parent_gives |= sb.st_mode & asked;
	if ((sb.st_mode & 07777) != tree_mode(m) && fchmod(fd, tree_mode(m)) < 0)
		return mlr_fail_errno(err, "set its mode");
	return 0;
}

int layer_writer_file_end(
	struct layer_writer *w, int fd, const struct layer_member *m, struct mlr_error *err)
{
	struct timespec ts[2] = { m->mtime, m->mtime };

	set_xattrs(fd, m);
	TRY(set_file_mode(w, fd, m, err));
	return futimens(fd, ts) < 0 ? mlr_fail_errno(err, "set its time") : 0;
}

int layer_writer_real_path(
	const struct layer_writer *w, const struct layer_member *m, char real[PATH_MAX])
{
	int n = snprintf(real, PATH_MAX, "%s%s%s", w->parent_real, *w->parent_real ? "/" : "",
		path_base(m->path));

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/*
 * Make a directory at name. An existing directory stays. Anything else, whiteouts included, meant
 * the removal of a directory that the layers below may have, so the new one is opaque.
 */
static int make_dir(struct layer_writer *w, const struct layer_member *m, const char *name,
	struct mlr_error *err)
{
	mode_t mode = (tree_mode(m) & 0777) | S_IRWXU;
	struct stat sb;

	if (mkdirat(w->parent_fd, name, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return mlr_fail_errno(err, "create directory");
	if (fstatat(w->parent_fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at what is there");
	if (S_ISDIR(sb.st_mode))
		return 0;
	TRY(make_way(w, name, err));
	if (mkdirat(w->parent_fd, name, mode) < 0)
		return mlr_fail_errno(err, "create directory");
	return layer_opaque_set(w->parent_fd, name, err);
}

/* Remember a directory that a member names. */
static int name_dir(struct layer_writer *w, const struct layer_member *m, const char *real,
	struct mlr_error *err)
{
	struct layer_name *n;

	TRY(layer_dirs_get(&w->dirs, real, &n, err));
	n->named = 1;
	n->implied = 0;
	n->inode->mode = m->mode & 07777;
	n->inode->mtime = m->mtime.tv_sec;
	n->inode->mtime_nsec = (uint32_t)m->mtime.tv_nsec;
	return 0;
}

static int put_dir(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	const char *name = ".";
	auto_free char *real = NULL;
	auto_close int fd = -1;

	if (*m->path) {
		TRY(enter(w, m->path, &name, err));
		TRY(make_dir(w, m, name, err));
		real = real_path(w, name);
	}
	TRY(name_dir(w, m, real ? real : "", err));
	if (m->n_xattrs == 0 && !has_owner(m))
		return 0;
	fd = openat(real ? w->parent_fd : w->root, name,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return mlr_fail_errno(err, "open directory");
	set_xattrs(fd, m);
	return 0;
}

#define OWNERS_MAX (16u << 20) /* bytes; no more are noted */

/* Note the owner of a link or fifo, which has no attributes. */
static void note_owner(struct layer_writer *w, const struct layer_member *m, const char *name)
{
	const struct file_owner o = { (uint32_t)m->uid, (uint32_t)m->gid, 0 };
	auto_free char *real = NULL, *text = NULL;
	struct owners_file_key key;

	if ((!o.uid && !o.gid) || w->owners_size > OWNERS_MAX)
		return;
	real = real_path(w, name);
	if (owners_file_key_of(w->parent_fd, name, AT_SYMLINK_NOFOLLOW, real, &key) < 0)
		return;
	text = owners_file_text(&key, &o);
	w->owners_size += strlen(text);
	strv_take(&w->owners, take_ptr(&text));
}

static int put_symlink(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	const char *target = m->target;
	const char *name;
	int r;

	TRY(check_not_top(m->path, "a symlink", err));
	if (!target || !*target)
		return mlr_fail(err, EPROTO, "a symlink to nothing");
	TRY(enter(w, m->path, &name, err));
	r = retry(w, symlinkat(target, w->parent_fd, name), name, "symlink", err);
	if (r > 0 && symlinkat(target, w->parent_fd, name) < 0)
		r = mlr_fail_errno(err, "create symlink");
	if (r >= 0)
		note_owner(w, m, name);
	return r < 0 ? r : set_time(w, name, &m->mtime, err);
}

static int put_fifo(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	const char *name;
	int r;

	TRY(check_not_top(m->path, "a fifo", err));
	TRY(enter(w, m->path, &name, err));
	r = retry(w, mkfifoat(w->parent_fd, name, 0600), name, "fifo", err);
	if (r > 0 && mkfifoat(w->parent_fd, name, 0600) < 0)
		r = mlr_fail_errno(err, "create fifo");
	TRY(r);
	if (fchmodat(w->parent_fd, name, tree_mode(m), 0) < 0) /* new, so no symlink */
		return mlr_fail_errno(err, "set its mode");
	note_owner(w, m, name);
	return set_time(w, name, &m->mtime, err);
}

/* Find a hard link's target: its directory's descriptor, its last name and its status. */
static int find_target(struct layer_writer *w, const char *target, const char **name,
	struct stat *sb, struct mlr_error *err)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(target, '/');
	auto_close int fd = -1;

	*name = slash ? slash + 1 : target;
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - target) : 0, target);
	fd = layer_path_walk(w->root, dir, NULL, NULL, NULL, err);
	if (fd < 0) {
		mlr_wrap(err, "hard link to '%s'", target);
		return fd;
	}
	if (fstatat(fd, *name, sb, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return mlr_fail(
			err, EPROTO, "hard link to '%s', which this layer does not have", target);
	if (S_ISDIR(sb->st_mode) || layer_whiteout_is(sb))
		return mlr_fail(err, EPROTO, "hard link to '%s', which is not a file", target);
	return take_fd(&fd);
}

static int put_link(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	const char *target = m->target;
	auto_close int dir = -1;
	const char *name, *to;
	struct stat there, sb;

	TRY(check_not_top(m->path, "a hard link", err));
	TRY(check_not_top(target, "a hard link to the top directory, or a link", err));
	TRY(enter(w, m->path, &name, err));
	TRY(dir = find_target(w, target, &to, &there, err));
	if (linkat(dir, to, w->parent_fd, name, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return mlr_fail_errno(err, "hard link to '%s'", target);

	if (fstatat(w->parent_fd, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 && sb.st_ino == there.st_ino)
		return 0; /* to itself, or already made; removing it could delete the file */
	TRY(make_way(w, name, err));
	if (linkat(dir, to, w->parent_fd, name, 0) < 0)
		return mlr_fail_errno(err, "hard link to '%s'", target);
	return 0;
}

/* Hide what the layers below have at a path. */
static int put_whiteout(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	auto_free char *real = NULL;
	struct layer_name *dir;
	const char *name;
	struct stat sb;
	int r;

	TRY(enter(w, m->path, &name, err));
	r = layer_whiteout_make(w->parent_fd, name, err);
	if (r == 0) {
		TRY(layer_dirs_get(&w->dirs, w->parent_real, &dir, err));
		dir->marks |= LAYER_DIRS_HIDES;
	}
	if (r != -EEXIST)
		return r;
	if (fstatat(w->parent_fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '%s'", name);
	if (!S_ISDIR(sb.st_mode))
		return 0; /* what this layer adds hides it already */

	/* The directory stays, since this layer adds it, but hides the one below. */
	TRY(layer_opaque_set(w->parent_fd, name, err));
	real = real_path(w, name);
	TRY(layer_dirs_get(&w->dirs, real, &dir, err));
	dir->implied = 0;
	return 0;
}

/* Hide everything that the layers below have in a directory. */
static int put_opaque(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	TRY(enter_dir(w, m->path, strlen(m->path), err));
	return layer_opaque_set(w->parent_fd, ".", err);
}

int layer_writer_name(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err)
{
	static int (*const put[])(
		struct layer_writer *, const struct layer_member *, struct mlr_error *) = {
		[LAYER_DIR] = put_dir,
		[LAYER_SYMLINK] = put_symlink,
		[LAYER_FIFO] = put_fifo,
		[LAYER_LINK] = put_link,
		[LAYER_WHITEOUT] = put_whiteout,
		[LAYER_OPAQUE] = put_opaque,
	};

	return put[m->kind](w, m, err);
}

/* Record what lies below a directory that its owner may not search: it cannot be read later. */
static int keep_unreachable(void *ctx, const char *real, struct mlr_error *err)
{
	struct layer_writer *w = ctx;

	return layer_recorder_keep(w->recorder, w->root, real, real, err);
}

int layer_writer_finish(struct layer_writer *w, struct mlr_error *err)
{
	if (w->recorder)
		TRY(layer_dirs_each_closed(&w->dirs, keep_unreachable, w, err));
	return layer_dirs_apply(&w->dirs, w->root, err);
}
