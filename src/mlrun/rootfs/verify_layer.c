#include "rootfs/verify_tree.h"

#include "base/base.h"
#include "base/tighten.h"
#include "layer/record.h"
#include "layer/tar.h"
#include "layer/unpack.h"
#include "layer/whiteout.h"
#include "rootfs/verify_xattrs.h"

#include <pthread.h>
#include <search.h>

#define PIPE_BYTES (1 << 20)
#define FILES_MAX  20 /* wrong names that are reported */

/* What the tar says of one name; the last member of a name made the tree's entry. */
struct said {
	char *path;    /* in the tree */
	char *spelled; /* in the tar; may lead through links */
	size_t at;     /* the member's index */
	mode_t type;   /* S_IFREG, …; 0 for a hard link, whose type is its target's */
	mode_t mode;
	struct timespec mtime;
	char *target; /* a symlink's */
	struct said *earlier;
	struct xattr_sums xattrs;
};

/* Members that are not names of the tree. */
struct way {
	char *path;
	size_t at;
	enum {
		LOST, /* its path leads nowhere now */
		WHITEOUT,
		OPAQUE
	} what;
};

struct comparison {
	int record_fd, tree_fd;
	struct strv *files;
	void *names;      /* tsearch(3) tree of struct said */
	size_t n;         /* members so far */
	struct way *ways; /* n_ways of them */
	size_t n_ways, room_ways;
	int rerouted; /* a link on a member's path was made or replaced after that member */
	int to_reader, from_writer; /* pipes for the tar, between two threads */
	struct mlr_error rebuild_err;
	int rebuild;
};

/* --- the tar again -------------------------------------------------------- */

static int put(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	const struct comparison *c = ctx;
	int r = file_write_all(c->to_reader, buf, len);

	return r < 0 ? mlr_fail(err, -r, "the reader of the tar has left") : 0;
}

static void *rebuild_main(void *ctx)
{
	struct comparison *c = ctx;
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	c->rebuild =
		layer_rebuild(c->record_fd, c->tree_fd, put, c, diff_id, &bytes, &c->rebuild_err);
	close(take_fd(&c->to_reader));
	return NULL;
}

static ssize_t get(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	const struct comparison *c = ctx;
	ssize_t n;

	do
		n = read(c->from_writer, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? mlr_fail_errno(err, "read the tar") : n;
}

/* --- what it says --------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct said *)a)->path, ((const struct said *)b)->path);
}

static void said_free(void *p)
{
	struct said *s = p, *earlier;

	for (; s; s = earlier) {
		earlier = s->earlier;
		free(s->path);
		free(s->spelled);
		free(s->target);
		xattr_sums_done(&s->xattrs);
		free(s);
	}
}

/* The name in the tree that a member's path leads to, following the layer's links. NULL if it leads
 * nowhere. */
static char *real_path(int tree_fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : NULL, *dir = NULL;
	auto_close int fd = -1;

	if (!slash)
		return xstrdup(path);
	fd = file_open_in_root(tree_fd, parent, O_PATH | O_DIRECTORY, 0);
	dir = fd < 0 ? NULL : file_fd_below(tree_fd, fd);
	return dir ? xasprintf("%s%s%s", dir, *dir ? "/" : "", slash + 1) : NULL;
}

static void add_way(struct comparison *c, const char *path, int what)
{
	if (c->n_ways == c->room_ways) {
		c->room_ways = c->room_ways ? 2 * c->room_ways : 64;
		c->ways = xreallocarray(c->ways, c->room_ways, sizeof(*c->ways));
	}
	c->ways[c->n_ways++] = (struct way){ xstrdup(path), c->n++, what };
}

static void ways_free(struct comparison *c)
{
	for (size_t i = 0; i < c->n_ways; i++)
		free(c->ways[i].path);
	free(c->ways);
}

static int add(struct comparison *c, const struct layer_member *m, mode_t type)
{
	char *real = real_path(c->tree_fd, m->path);
	struct said *s, **found;

	if (!real) {
		add_way(c, m->path, LOST);
		return 0;
	}
	s = xcalloc(1, sizeof(*s));
	*s = (struct said){ real, xstrdup(m->path), c->n++, type, m->mode & ~TIGHTEN_BITS, m->mtime,
		type == S_IFLNK ? xstrdup(m->target) : NULL, NULL, { NULL, 0 } };
	xattr_sums_take(&s->xattrs, m);
	found = tsearch(s, &c->names, by_path);
	if (!found) {
		mlr_oom();
		abort();
	}
	if (*found != s) {
		s->earlier = *found;
		*found = s; /* same key, so the search tree stays sorted */
	}
	return 0;
}

static int say_file(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	(void)err;
	return add(ctx, m, S_IFREG);
}

static int pass_data(void *ctx, const void *buf, size_t len, uint64_t at, struct mlr_error *err)
{
	(void)ctx, (void)buf, (void)len, (void)at, (void)err;
	return 0;
}

static int pass_member(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	(void)ctx, (void)m, (void)err;
	return 0;
}

static int say_name(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	static const mode_t types[] = { [LAYER_DIR] = S_IFDIR,
		[LAYER_SYMLINK] = S_IFLNK,
		[LAYER_FIFO] = S_IFIFO,
		[LAYER_LINK] = 0 };

	(void)err;
	if (m->kind == LAYER_WHITEOUT || m->kind == LAYER_OPAQUE)
		add_way(ctx, m->path, m->kind == LAYER_WHITEOUT ? WHITEOUT : OPAQUE);
	else if (m->kind != LAYER_DIR || *m->path)
		return add(ctx, m, types[m->kind]);
	return 0;
}

static const struct layer_sink listener = {
	.file = say_file, .data = pass_data, .file_end = pass_member, .name = say_name
};

/* --- what the tree says --------------------------------------------------- */

static void wrong(struct comparison *c, const char *path, const char *why)
{
	if (c->files->n < FILES_MAX)
		strv_addf(c->files, "%s: %s", path, why);
	else if (c->files->n == FILES_MAX)
		strv_add(c->files, "…");
}

/*
 * Is this the first or last second that some file system stores? The kernel clamps times beyond
 * (timestamp_truncate() in fs/inode.c). The limits are of ext4 with 128-byte inodes, NFS 3, ext4
 * with 256-byte inodes, and XFS with bigtime.
 */
static int is_end_of_time(time_t t, int last)
{
	static const int64_t firsts[] = { INT32_MIN, 0 },
			     lasts[] = { INT32_MAX, UINT32_MAX, 15032385535, 16299260424 };

	for (size_t i = 0; i < (last ? ARRAY_LEN(lasts) : ARRAY_LEN(firsts)); i++)
		if (t == (last ? lasts[i] : firsts[i]))
			return 1;
	return 0;
}

/* Compare times; some file systems store less than nanoseconds. */
static int same_time(const struct timespec *is, const struct timespec *said)
{
	return is->tv_sec == said->tv_sec || is_end_of_time(is->tv_sec, is->tv_sec < said->tv_sec);
}

static int xattrs_differ(int dir, const char *name, const struct said *s)
{
	auto_close int fd =
		openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);

	return fd >= 0 && xattr_sums_differ(&s->xattrs, fd);
}

/* How the entry differs from this member; NULL if it does not. */
static const char *differs(int dir, const char *name, const struct stat *sb, const struct said *s)
{
	char target[PATH_MAX];
	ssize_t n;

	if (s->type == 0)
		return S_ISDIR(sb->st_mode) ? "is a directory, was a hard link" : NULL;
	if ((sb->st_mode & S_IFMT) != s->type)
		return "is of another type";
	if (s->type == S_IFLNK) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0 || (size_t)n != strlen(s->target) ||
			memcmp(target, s->target, (size_t)n) != 0)
			return "links to something else";
		return NULL;
	}
	if ((sb->st_mode & 07777 & ~TIGHTEN_BITS) != s->mode)
		return "has another mode";
	if (s->type == S_IFREG && !same_time(&sb->st_mtim, &s->mtime))
		return "was changed (its time differs)";
	if (s->type != S_IFIFO && xattrs_differ(dir, name, s))
		return "has other extended attributes";
	return NULL;
}

/* Check one name of the tree. It is right if it matches any member of that name, since hard links
 * and replaced members leave attributes of others. */
static void check_name(
	struct comparison *c, int dir, const char *name, const char *path, const struct stat *sb)
{
	struct said key = { .path = (char *)path }, **found = tfind(&key, &c->names, by_path);
	const char *why = NULL;

	if (!found) {
		/* Directories that the tar only uses have no member. */
		if (!S_ISDIR(sb->st_mode) && !layer_whiteout_is(sb))
			wrong(c, path, "is not in the layer");
		return;
	}
	if (layer_whiteout_is(sb))
		return;
	for (const struct said *s = *found; s; s = s->earlier) {
		const char *w = differs(dir, name, sb, s);

		if (!w)
			return;
		if (!why)
			why = w;
	}
	/* With hard links, the last member of any name of the file sets mode and time. */
	if (sb->st_nlink == 1 || S_ISDIR(sb->st_mode) || S_ISLNK(sb->st_mode))
		wrong(c, path, why);
}

static void check_dir(struct comparison *c, int fd, const char *path);

static void check_entry(struct comparison *c, int dir, const char *name, const char *path)
{
	struct stat sb;
	auto_close int fd = -1;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	check_name(c, dir, name, path, &sb);
	if (!S_ISDIR(sb.st_mode))
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) /* fails if the image's author made it unreadable */
		check_dir(c, fd, path);
}

/* The recursion is at most LAYER_DEPTH_MAX deep, as layers are. */
static void check_dir(struct comparison *c, int fd, const char *path)
{
	DIR *d = file_open_dir(fd, ".", 0);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		auto_free char *sub = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		sub = xasprintf("%s%s%s", path, *path ? "/" : "", e->d_name);
		check_entry(c, fd, e->d_name, sub);
	}
	if (d)
		closedir(d);
}

/* Did the layer replace a directory above it? Then it may have been removed with that directory. */
static int parent_changed(struct comparison *c, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *above = xstrndup(path, (size_t)(slash - path));
		struct said key = { .path = above }, **found = tfind(&key, &c->names, by_path);

		if (found && (*found)->earlier)
			return 1;
	}
	return 0;
}

/* Check that each member is in the tree. Writing the tar again does not notice a missing symlink or
 * fifo, as these have no data. */
static struct comparison *walking; /* twalk(3) has no context; guarded by walk_lock */
static pthread_mutex_t walk_lock = PTHREAD_MUTEX_INITIALIZER;

static void check_there(const void *node, VISIT visit, int depth)
{
	const struct said *s = *(const struct said *const *)node;
	struct stat sb;

	(void)depth;
	if ((visit != postorder && visit != leaf) || s->earlier)
		return;
	if (fstatat(walking->tree_fd, s->path, &sb, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
		!parent_changed(walking, s->path))
		wrong(walking, s->path, "is missing");
}

/* 1, also if it cannot be read; else 0. */
static int is_opaque(const struct comparison *c, const char *dir)
{
	auto_close int fd =
		file_open_in_root(c->tree_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY, 0);

	return fd < 0 || layer_opaque_is(fd);
}

/* Check that a mark of the layer still hides what the layers below have: there must be a whiteout
 * or something else of that name, and a directory there must be opaque. An opaque parent needs no
 * whiteouts. */
static void check_hiding(struct comparison *c, const struct way *w)
{
	auto_free char *real = w->what == WHITEOUT ? real_path(c->tree_fd, w->path) : NULL;
	struct stat sb;
	char *slash;

	if (w->what == OPAQUE && !is_opaque(c, w->path))
		wrong(c, w->path, "shows what the layers below have in it");
	if (!real)
		return;
	if (fstatat(c->tree_fd, real, &sb, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(sb.st_mode) && !is_opaque(c, real))
			wrong(c, real, "shows what the layers below have in it");
		return;
	}
	slash = strrchr(real, '/');
	if (slash)
		*slash = '\0';
	if (errno == ENOENT && !is_opaque(c, slash ? real : ""))
		wrong(c, w->path, "shows what the layers below have there");
}

/* Does the path of the at-th member lead through a link that was missing or different at that
 * point? */
static int is_rerouted(struct comparison *c, const char *path, size_t at)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *above = xstrndup(path, (size_t)(slash - path));
		struct said key = { .path = above }, **found = tfind(&key, &c->names, by_path);

		if (found && (*found)->type == S_IFLNK && ((*found)->earlier || (*found)->at > at))
			return 1;
	}
	return 0;
}

static void check_way(const void *node, VISIT visit, int depth)
{
	const struct said *s = *(const struct said *const *)node;

	(void)depth;
	if (visit != postorder && visit != leaf)
		return;
	for (; s && !walking->rerouted; s = s->earlier)
		walking->rerouted = is_rerouted(walking, s->spelled, s->at);
}

static void walk(struct comparison *c, void (*fn)(const void *node, VISIT visit, int depth))
{
	pthread_mutex_lock(&walk_lock);
	walking = c;
	twalk(c->names, fn);
	walking = NULL;
	pthread_mutex_unlock(&walk_lock);
}

/* Check the names, unless a member's former path is unknown: then names prove nothing. The digest
 * covers the files' bytes in any case. */
static void check_names(struct comparison *c)
{
	check_dir(c, c->tree_fd, "");
	walk(c, check_there);
	for (size_t i = 0; i < c->n_ways; i++)
		check_hiding(c, &c->ways[i]);
	if (c->files->n == 0)
		return;
	walk(c, check_way);
	for (size_t i = 0; i < c->n_ways && !c->rerouted; i++) {
		auto_free char *way = xasprintf("%s/", c->ways[i].path);

		c->rerouted = is_rerouted(c, way, c->ways[i].at);
	}
	if (c->rerouted)
		strv_done(c->files);
}

/* --- both ----------------------------------------------------------------- */

/* If both ends fail, report the writer's failure. */
static int read_tar(struct comparison *c, struct layer_result *result, struct mlr_error *err)
{
	const struct layer_limits limits = LAYER_LIMITS_DEFAULT;
	auto_close int in = -1;
	pthread_t thread;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	in = ends[0];
	c->from_writer = ends[0];
	c->to_reader = ends[1];
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	r = pthread_create(&thread, NULL, rebuild_main, c);
	if (r != 0) {
		close(ends[1]);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	r = layer_tar_read(get, c, OCI_PLAIN, &limits, &listener, c, result, err);
	close(take_fd(&in)); /* the writer gets EPIPE if it still writes */
	pthread_join(thread, NULL);
	if (c->rebuild < 0 && c->rebuild != -EPIPE) {
		if (err)
			*err = c->rebuild_err;
		return c->rebuild;
	}
	return r;
}

int rootfs_verify_layer(
	const char *diff_id, int record_fd, int tree_fd, struct strv *files, struct mlr_error *err)
{
	auto_call(layer_result_done) struct layer_result result = LAYER_RESULT_INIT;
	struct comparison c = { .record_fd = record_fd,
		.tree_fd = tree_fd,
		.files = files,
		.to_reader = -1,
		.from_writer = -1 };
	int r = read_tar(&c, &result, err);

	if (r == 0)
		check_names(&c);
	tdestroy(c.names, said_free);
	ways_free(&c);
	if (r < 0)
		return r;
	if (strcmp(result.diff_id, diff_id) != 0)
		return mlr_fail(
			err, EBADMSG, "its files give a layer of digest %s", result.diff_id);
	if (files->n > 0)
		return mlr_fail(err, EBADMSG, "names of its tree are not as in the layer");
	return 0;
}
