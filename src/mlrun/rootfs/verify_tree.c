#include "rootfs/verify_tree.h"

#include "rootfs/layers.h"
#include "rootfs/listing.h"
#include "store/tree.h"

#define BUFFER    65536
#define FILES_MAX 20

struct inode {
	dev_t dev;
	ino_t ino;
};

struct inodes {
	struct inode *v; /* n of them, sorted once complete */
	size_t n, room;
};

struct tree_check {
	struct rootfs_layers layers;
	struct inodes inodes; /* of the layers' regular files */
	struct strv *files;
};

/* Called for each name of a tree but "." and "..", for directories after their contents. */
typedef void (*visit_fn)(
	void *ctx, int dir, const char *name, const char *path, const struct stat *sb);

/* The recursion is at most LAYER_DEPTH_MAX deep, as layers are. Skips unreadable directories. */
static void walk(int fd, const char *path, visit_fn visit, void *ctx)
{
	auto_strv struct strv names = STRV_INIT;

	file_list(fd, ".", 0, &names);
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		auto_free char *sub = xasprintf("%s%s%s", path, *path ? "/" : "", name);
		auto_close int below = -1;
		struct stat sb;

		if (fstatat(fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(sb.st_mode))
			below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			walk(below, sub, visit, ctx);
		visit(ctx, fd, name, sub, &sb);
	}
}

static void collect_inode(
	void *ctx, int dir, const char *name, const char *path, const struct stat *sb)
{
	struct inodes *l = ctx;

	(void)dir, (void)name, (void)path;
	if (!S_ISREG(sb->st_mode))
		return;
	if (l->n == l->room) {
		l->room = l->room ? l->room * 2 : 1024;
		l->v = xreallocarray(l->v, l->room, sizeof(*l->v));
	}
	l->v[l->n++] = (struct inode){ sb->st_dev, sb->st_ino };
}

static int by_inode(const void *a, const void *b)
{
	const struct inode *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static int same_bytes(int a, int b)
{
	auto_free char *x = xmalloc(BUFFER), *y = xmalloc(BUFFER);

	for (;;) {
		ssize_t n = file_read_full(a, x, BUFFER), m = file_read_full(b, y, BUFFER);

		if (n < 0 || n != m || memcmp(x, y, (size_t)n) != 0)
			return 0;
		if (n == 0)
			return 1;
	}
}

/* Does the file have the bytes of a layer's file of this name? The topmost layer comes first, but
 * links on the path may lead elsewhere in it, so any layer counts. */
static int is_some_layers(const struct tree_check *t, int dir, const char *name, const char *path)
{
	for (size_t i = t->layers.n; i-- > 0;) {
		auto_close int theirs = file_open_in_root(
			t->layers.v[i].fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
		auto_close int ours =
			openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (ours < 0)
			return errno == EACCES; /* unreadable by its author's mode */
		if (theirs >= 0 && same_bytes(theirs, ours))
			return 1;
	}
	return 0;
}

static void check_file(
	void *ctx, int dir, const char *name, const char *path, const struct stat *sb)
{
	struct tree_check *t = ctx;
	struct inode key = { sb->st_dev, sb->st_ino };

	if (!S_ISREG(sb->st_mode) ||
		(t->inodes.n && bsearch(&key, t->inodes.v, t->inodes.n, sizeof(key), by_inode)) ||
		is_some_layers(t, dir, name, path))
		return;
	if (t->files->n < FILES_MAX)
		strv_addf(t->files, "%s: is not as in any layer", path);
	else if (t->files->n == FILES_MAX)
		strv_add(t->files, "…");
}

int rootfs_verify_tree(struct store *st, const char *manifest, const struct strv *diff_ids,
	struct strv *files, struct mlr_error *err)
{
	struct tree_check t = { { 0 }, { NULL, 0, 0 }, files };
	auto_close int tree = store_tree_open(st, STORE_DIR, manifest, err);
	int r = tree < 0 ? tree : rootfs_layers_open(st, diff_ids, &t.layers, err);

	for (size_t i = 0; r == 0 && i < t.layers.n; i++)
		walk(t.layers.v[i].fd, "", collect_inode, &t.inodes);
	if (r == 0) {
		sort_all(t.inodes.v, t.inodes.n, by_inode);
		walk(tree, "", check_file, &t);
		if (files->n > 0)
			r = mlr_fail(err, EBADMSG, "files of it are not as in its layers");
	}
	free(t.inodes.v);
	rootfs_layers_done(&t.layers);
	return r < 0 ? r : rootfs_listing_check(st, STORE_DIR, manifest, err);
}

static void count_others(
	void *ctx, int dir, const char *name, const char *path, const struct stat *sb)
{
	(void)dir, (void)name, (void)path;
	*(size_t *)ctx += !S_ISDIR(sb->st_mode);
}

int rootfs_verify_cover(struct store *st, const char *manifest, struct mlr_error *err)
{
	auto_close int tree = store_tree_open(st, STORE_COVER, manifest, err);
	size_t others = 0;

	if (tree < 0)
		return tree;
	walk(tree, "", count_others, &others);
	if (others > 0)
		return mlr_fail(err, EBADMSG, "%zu of its names are not directories", others);
	return rootfs_listing_check(st, STORE_COVER, manifest, err);
}
