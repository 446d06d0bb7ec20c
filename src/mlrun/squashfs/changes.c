#include "squashfs/changes.h"

#include "base/base.h"

int squashfs_changes_init(
	struct squashfs_changes *c, struct squashfs_names *t, int64_t mtime, struct mlr_error *err)
{
	memset(c, 0, sizeof(*c));
	c->t = t;
	c->mtime = mtime;
	c->parent_path = xmalloc(PATH_MAX);
	c->top = squashfs_names_top(t, mtime, err);
	return c->top ? 0 : err ? -err->code : -ENOMEM;
}

void squashfs_changes_done(struct squashfs_changes *c)
{
	free(c->parent_path);
	c->parent_path = NULL;
	c->parent = NULL;
}

/* Go to the parent directory of path; its last component is in *name. path is not the top. */
static int enter(
	struct squashfs_changes *c, const char *path, const char **name, struct mlr_error *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	int r;

	*name = slash ? slash + 1 : path;
	if (c->parent && strncmp(c->parent_path, path, len) == 0 && c->parent_path[len] == '\0')
		return 0;
	c->parent = NULL;
	if (len >= PATH_MAX)
		return mlr_fail(err, ENAMETOOLONG, "a path longer than %d bytes", PATH_MAX - 1);
	memcpy(c->parent_path, path, len);
	c->parent_path[len] = '\0';
	r = squashfs_names_walk(c->t, c->top, c->parent_path, 1, c->mtime, &c->parent, err);
	if (r < 0)
		c->parent = NULL;
	return r;
}

/* Remove an existing name. The cached parent may have led through it. */
static void make_way(struct squashfs_changes *c, struct squashfs_names_node *there)
{
	squashfs_names_remove(c->t, there);
	if (squashfs_names_kind(there) == NAMES_DIR || squashfs_names_kind(there) == NAMES_SYMLINK)
		c->parent = NULL;
}

int squashfs_changes_put(struct squashfs_changes *c, const char *path,
	struct squashfs_names_inode *inode, struct squashfs_names_node **ret, struct mlr_error *err)
{
	struct squashfs_names_node *there, *dir, *n;
	const char *name;

	if (!*path)
		return mlr_fail(err, EPROTO, "it would replace the top directory");
	TRY(enter(c, path, &name, err));
	dir = c->parent;
	there = squashfs_names_find(c->t, dir, name, strlen(name));
	if (there)
		make_way(c, there);
	n = squashfs_names_add(c->t, dir, name, strlen(name), inode, err);
	if (!n)
		return err ? -err->code : -ENOMEM;
	if (ret)
		*ret = n;
	return 0;
}

/*
 * Make a directory. If it replaces something else, also a whiteout, the new directory is opaque:
 * the old entry stood for the removal of a directory that the layers below may have.
 */
static int put_dir(struct squashfs_changes *c, const char *path, struct squashfs_names_node **ret,
	struct mlr_error *err)
{
	struct squashfs_names_inode *inode =
		squashfs_names_inode(c->t, NAMES_DIR, 0755, c->mtime, err);
	const char *name;
	int had, r;

	if (!inode)
		return err ? -err->code : -ENOMEM;
	TRY(enter(c, path, &name, err));
	had = squashfs_names_find(c->t, c->parent, name, strlen(name)) != NULL;
	r = squashfs_changes_put(c, path, inode, ret, err);
	if (r == 0)
		(*ret)->opaque = had;
	return r;
}

int squashfs_changes_dir(struct squashfs_changes *c, const char *path, unsigned mode, int64_t mtime,
	uint32_t xattr, struct mlr_error *err)
{
	struct squashfs_names_node *n = c->top;
	const char *name;

	if (*path) {
		TRY(enter(c, path, &name, err));
		n = squashfs_names_find(c->t, c->parent, name, strlen(name));
		if (!n || squashfs_names_kind(n) != NAMES_DIR)
			TRY(put_dir(c, path, &n, err));
	}
	n->implied = 0;
	n->inode->mode = mode & 07777;
	n->inode->mtime = mtime;
	n->inode->xattr = xattr;
	return 0;
}

/* A link's target, a file of this layer. NULL with err set if there is none. */
static struct squashfs_names_node *find_target(
	struct squashfs_changes *c, const char *target, struct mlr_error *err)
{
	const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
	auto_free char *dir = xstrndup(target, slash ? (size_t)(slash - target) : 0);
	struct squashfs_names_node *at, *n = NULL;

	if (squashfs_names_walk(c->t, c->top, dir, 0, 0, &at, NULL) == 0)
		n = squashfs_names_find(c->t, at, name, strlen(name));
	if (!n) {
		mlr_fail(err, EPROTO, "hard link to '%.300s', which this layer does not have",
			target);
		return NULL;
	}
	if (squashfs_names_kind(n) == NAMES_DIR || squashfs_names_kind(n) == NAMES_WHITEOUT) {
		mlr_fail(err, EPROTO, "hard link to '%.300s', which is not a file", target);
		return NULL;
	}
	return n;
}

int squashfs_changes_link(
	struct squashfs_changes *c, const char *path, const char *target, struct mlr_error *err)
{
	struct squashfs_names_node *n, *there;
	const char *name;

	if (!*path || !*target)
		return mlr_fail(err, EPROTO, "a hard link of the top directory");
	TRY(enter(c, path, &name, err));
	n = find_target(c, target, err);
	if (!n)
		return -EPROTO;
	there = squashfs_names_find(c->t, c->parent, name, strlen(name));
	if (there && there->inode == n->inode)
		return 0; /* a link to itself, or made before */
	for (const struct squashfs_names_node *d = n; there && d; d = d->parent)
		if (d == there)
			return mlr_fail(
				err, EPROTO, "hard link to '%.300s', which it replaces", target);
	return squashfs_changes_put(c, path, n->inode, NULL, err);
}

int squashfs_changes_whiteout(struct squashfs_changes *c, const char *path, struct mlr_error *err)
{
	struct squashfs_names_node *n;
	const char *name;

	if (!*path)
		return mlr_fail(err, EPROTO, "a whiteout of no name");
	TRY(enter(c, path, &name, err));
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return mlr_fail(err, EPROTO, "a whiteout of no name");
	n = squashfs_names_find(c->t, c->parent, name, strlen(name));
	if (!n) {
		n = squashfs_names_add(c->t, c->parent, name, strlen(name), NULL, err);
		return n ? 0 : err ? -err->code : -ENOMEM;
	}
	if (squashfs_names_kind(n) == NAMES_DIR) {
		/* The layer adds this directory, so nothing below it is merged in. Entries of other
		 * kinds hide the lower ones anyway. */
		n->opaque = 1;
		n->implied = 0;
	}
	return 0;
}

int squashfs_changes_opaque(struct squashfs_changes *c, const char *path, struct mlr_error *err)
{
	struct squashfs_names_node *n;

	TRY(squashfs_names_walk(c->t, c->top, path, 1, c->mtime, &n, err));
	n->opaque = 1;
	return 0;
}

/* The path of one of the layer's directories. */
static char *path_of(const struct squashfs_names_node *n)
{
	size_t len = 0;
	char *s, *p;

	for (const struct squashfs_names_node *d = n; d->parent; d = d->parent)
		len += (size_t)d->len + 1;
	s = xmalloc(len + 1);
	p = s + len;
	*p = '\0';
	for (const struct squashfs_names_node *d = n; d->parent; d = d->parent) {
		p -= d->len;
		memcpy(p, d->name, d->len);
		*--p = '/';
	}
	return s;
}

/* Clear the marks of a subtree that moved into the result as a whole. The recursion is as deep as
 * the layer's paths at most. */
static void settle(struct squashfs_names *t, struct squashfs_names_node *dir)
{
	struct squashfs_names_node *next;

	dir->opaque = dir->implied = 0;
	for (struct squashfs_names_node *n = dir->child; n; n = next) {
		next = n->next;
		if (squashfs_names_kind(n) == NAMES_WHITEOUT)
			squashfs_names_remove(t, n);
		else if (squashfs_names_kind(n) == NAMES_DIR)
			settle(t, n);
	}
}

static int apply_dir(struct squashfs_changes *c, struct squashfs_names_node *from,
	struct squashfs_names_node *to, struct squashfs_names_node *result, struct mlr_error *err);

static void take(struct squashfs_changes *c, struct squashfs_names_node *n,
	struct squashfs_names_node *there, struct squashfs_names_node *to)
{
	if (there)
		squashfs_names_remove(c->t, there);
	squashfs_names_move(c->t, n, to);
	if (squashfs_names_kind(n) == NAMES_DIR)
		settle(c->t, n);
}

static int apply_subdir(struct squashfs_changes *c, struct squashfs_names_node *n,
	struct squashfs_names_node *there, struct squashfs_names_node *to,
	struct squashfs_names_node *result, struct mlr_error *err)
{
	int r;

	if (there && squashfs_names_kind(there) == NAMES_DIR) {
		r = apply_dir(c, n, there, result, err);
		if (r == 0 && !n->implied)
			*there->inode = *n->inode;
		return r;
	}
	if (there && squashfs_names_kind(there) == NAMES_SYMLINK && n->implied) {
		/* The layer uses a directory, without naming it, where the result has a symlink:
		 * its files go to the link's target. */
		auto_free char *path = path_of(n);
		struct squashfs_names_node *at;

		r = squashfs_names_walk(c->t, result, path, 1, c->mtime, &at, err);
		if (r == 0)
			return apply_dir(c, n, at, result, err);
		if (r != -ENOTDIR)
			return r;
	}
	take(c, n, there, to);
	return 0;
}

static int apply_dir(struct squashfs_changes *c, struct squashfs_names_node *from,
	struct squashfs_names_node *to, struct squashfs_names_node *result, struct mlr_error *err)
{
	struct squashfs_names_node *next;
	int r = 0;

	if (from->opaque)
		while (to->child)
			squashfs_names_remove(c->t, to->child);
	for (struct squashfs_names_node *n = from->child; n && r == 0; n = next) {
		struct squashfs_names_node *there = squashfs_names_find(c->t, to, n->name, n->len);

		next = n->next;
		if (squashfs_names_kind(n) == NAMES_DIR)
			r = apply_subdir(c, n, there, to, result, err);
		else if (squashfs_names_kind(n) != NAMES_WHITEOUT)
			take(c, n, there, to);
		else if (there)
			squashfs_names_remove(c->t, there);
	}
	return r;
}

int squashfs_changes_apply(
	struct squashfs_changes *c, struct squashfs_names_node *result, struct mlr_error *err)
{
	int r = apply_dir(c, c->top, result, result, err);

	if (r == 0 && !c->top->implied)
		*result->inode = *c->top->inode;
	return r;
}
