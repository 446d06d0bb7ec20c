#include "layer/changes.h"

int layer_changes_init(
	struct layer_changes *c, struct layer_names *t, size_t layer, struct mlr_error *err)
{
	*c = (struct layer_changes){ .t = t, .layer = (unsigned)layer };
	c->parent_path = xmalloc(PATH_MAX);
	c->top = layer_names_top(t, err);
	return c->top ? 0 : layer_names_failed(err);
}

void layer_changes_done(struct layer_changes *c)
{
	free(c->parent_path);
	c->parent_path = NULL;
	c->parent = NULL;
}

/* Go to the parent directory of path; its last component is in *name. path is not the top. */
static int enter(
	struct layer_changes *c, const char *path, const char **name, struct mlr_error *err)
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
	r = layer_names_walk(c->t, c->top, c->parent_path, 1, &c->parent, err);
	if (r < 0)
		c->parent = NULL;
	return r;
}

/* Remove an existing name. The cached parent may have led through it. */
static void make_way(struct layer_changes *c, struct layer_name *there)
{
	layer_names_remove(c->t, there);
	if (layer_names_kind(there) == LAYER_DIR || layer_names_kind(there) == LAYER_SYMLINK)
		c->parent = NULL;
}

/* Give a path this inode, replacing whatever has the name; ret may be NULL. */
static int put(struct layer_changes *c, const char *path, struct layer_inode *inode,
	struct layer_name **ret, struct mlr_error *err)
{
	struct layer_name *there, *n;
	const char *name;

	if (!*path)
		return mlr_fail(err, EPROTO, "it would replace the top directory");
	TRY(enter(c, path, &name, err));
	n = c->parent;
	there = layer_names_find(c->t, n, name, strlen(name));
	if (there)
		make_way(c, there);
	n = layer_names_add(c->t, n, name, strlen(name), inode, err);
	if (!n)
		return layer_names_failed(err);
	n->named = 1;
	/* A directory in place of anything else, also of a whiteout, is opaque: the old entry stood
	 * for the removal of a directory that the layers below may have. */
	n->opaque = there && inode->kind == LAYER_DIR;
	if (ret)
		*ret = n;
	return 0;
}

static void describe(const struct layer_changes *c, const struct layer_member *m, uint32_t xattr,
	struct layer_inode *inode)
{
	inode->mode = (m->mode | m->set_ids) & 07777;
	inode->layer = c->layer & 0x7fff;
	inode->uid = (uint32_t)m->uid;
	inode->gid = (uint32_t)m->gid;
	inode->xattr = xattr;
	inode->mtime = m->mtime.tv_sec;
}

static int add_inode(struct layer_changes *c, const struct layer_member *m, uint32_t xattr,
	struct layer_name **ret, struct mlr_error *err)
{
	struct layer_inode *inode = layer_names_inode(c->t, m->kind, 0, err);

	if (!inode)
		return layer_names_failed(err);
	describe(c, m, xattr, inode);
	if (m->kind == LAYER_SYMLINK) {
		inode->target = layer_names_alloc(c->t, strlen(m->target) + 1, err);
		if (!inode->target)
			return layer_names_failed(err);
		strcpy(inode->target, m->target);
	}
	return put(c, m->path, inode, ret, err);
}

/* Make a directory, or set an existing one's attributes. */
static int add_dir(struct layer_changes *c, const struct layer_member *m, uint32_t xattr,
	struct layer_name **ret, struct mlr_error *err)
{
	struct layer_name *n = c->top;
	const char *name;

	if (*m->path) {
		TRY(enter(c, m->path, &name, err));
		n = layer_names_find(c->t, c->parent, name, strlen(name));
		if (!n || layer_names_kind(n) != LAYER_DIR)
			return add_inode(c, m, xattr, ret, err);
	}
	n->implied = 0;
	n->named = 1;
	describe(c, m, xattr, n->inode);
	if (ret)
		*ret = n;
	return 0;
}

/* A link's target, a file of this layer. NULL with err set if there is none. */
static struct layer_name *find_target(
	struct layer_changes *c, const char *target, struct mlr_error *err)
{
	const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
	auto_free char *dir = xstrndup(target, slash ? (size_t)(slash - target) : 0);
	struct layer_name *at, *n = NULL;

	if (layer_names_walk(c->t, c->top, dir, 0, &at, NULL) == 0)
		n = layer_names_find(c->t, at, name, strlen(name));
	if (!n) {
		mlr_fail(err, EPROTO, "hard link to '%.300s', which this layer does not have",
			target);
		return NULL;
	}
	if (layer_names_kind(n) == LAYER_DIR || layer_names_kind(n) == LAYER_WHITEOUT) {
		mlr_fail(err, EPROTO, "hard link to '%.300s', which is not a file", target);
		return NULL;
	}
	return n;
}

static int add_link(struct layer_changes *c, const char *path, const char *target,
	struct layer_name **ret, struct mlr_error *err)
{
	struct layer_name *n, *there;
	const char *name;

	if (!*path || !*target)
		return mlr_fail(err, EPROTO, "a hard link of the top directory");
	TRY(enter(c, path, &name, err));
	n = find_target(c, target, err);
	if (!n)
		return -EPROTO;
	there = layer_names_find(c->t, c->parent, name, strlen(name));
	for (const struct layer_name *d = n->parent; there && d; d = d->parent)
		if (d == there)
			return mlr_fail(
				err, EPROTO, "hard link to '%.300s', which it replaces", target);
	if (!there || there->inode != n->inode)
		return put(c, path, n->inode, ret, err);
	if (ret)
		*ret = there; /* a link to itself, or made before */
	return 0;
}

static int add_whiteout(struct layer_changes *c, const char *path, struct mlr_error *err)
{
	struct layer_name *n;
	const char *name;

	TRY(enter(c, path, &name, err));
	n = layer_names_find(c->t, c->parent, name, strlen(name));
	if (!n) {
		n = layer_names_add(c->t, c->parent, name, strlen(name), NULL, err);
		return n ? 0 : layer_names_failed(err);
	}
	if (layer_names_kind(n) == LAYER_DIR) {
		/* The layer adds this directory, so nothing below it is merged in. Entries of other
		 * kinds hide the lower ones anyway. */
		n->opaque = 1;
		n->implied = 0;
	}
	return 0;
}

static int add_opaque(struct layer_changes *c, const char *path, struct mlr_error *err)
{
	struct layer_name *n;

	TRY(layer_names_walk(c->t, c->top, path, 1, &n, err));
	n->opaque = 1;
	return 0;
}

int layer_changes_add(struct layer_changes *c, const struct layer_member *m, uint32_t xattr,
	struct layer_name **ret, struct mlr_error *err)
{
	if (ret)
		*ret = NULL;
	switch (m->kind) {
	case LAYER_DIR:
		return add_dir(c, m, xattr, ret, err);
	case LAYER_LINK:
		return add_link(c, m->path, m->target, ret, err);
	case LAYER_WHITEOUT:
		return add_whiteout(c, m->path, err);
	case LAYER_OPAQUE:
		return add_opaque(c, m->path, err);
	case LAYER_SYMLINK:
		if (!m->target || !*m->target)
			return mlr_fail(err, EPROTO, "a symlink to nothing");
		/* fall through */
	case LAYER_FILE:
	case LAYER_FIFO:
		break;
	}
	return add_inode(c, m, xattr, ret, err);
}

/* Clear the marks of a subtree that moved into the result as a whole. The recursion is as deep as
 * the layer's paths at most. */
static void settle(struct layer_names *t, struct layer_name *dir)
{
	struct layer_name *next;

	dir->opaque = dir->implied = 0;
	for (struct layer_name *n = dir->child; n; n = next) {
		next = n->next;
		if (layer_names_kind(n) == LAYER_WHITEOUT)
			layer_names_remove(t, n);
		else if (layer_names_kind(n) == LAYER_DIR)
			settle(t, n);
	}
}

static int apply_dir(struct layer_changes *c, struct layer_name *from, struct layer_name *to,
	struct layer_name *result, struct mlr_error *err);

static void take(struct layer_changes *c, struct layer_name *n, struct layer_name *there,
	struct layer_name *to)
{
	if (there)
		layer_names_remove(c->t, there);
	layer_names_move(c->t, n, to);
	if (layer_names_kind(n) == LAYER_DIR)
		settle(c->t, n);
}

static int apply_subdir(struct layer_changes *c, struct layer_name *n, struct layer_name *there,
	struct layer_name *to, struct layer_name *result, struct mlr_error *err)
{
	int r;

	if (there && layer_names_kind(there) == LAYER_DIR) {
		TRY(apply_dir(c, n, there, result, err));
		if (!n->implied)
			*there->inode = *n->inode;
		return 0;
	}
	if (there && layer_names_kind(there) == LAYER_SYMLINK && n->implied) {
		/* The layer uses a directory, without naming it, where the result has a symlink:
		 * its files go to the link's target. */
		auto_free char *path = layer_names_path(n);
		struct layer_name *at;

		r = layer_names_walk(c->t, result, path, 1, &at, err);
		if (r == 0)
			return apply_dir(c, n, at, result, err);
		if (r != -ENOTDIR)
			return r;
	}
	take(c, n, there, to);
	return 0;
}

static int apply_dir(struct layer_changes *c, struct layer_name *from, struct layer_name *to,
	struct layer_name *result, struct mlr_error *err)
{
	struct layer_name *next;

	if (from->opaque)
		while (to->child)
			layer_names_remove(c->t, to->child);
	for (struct layer_name *n = from->child; n; n = next) {
		struct layer_name *there = layer_names_find(c->t, to, n->name, n->len);

		next = n->next;
		if (layer_names_kind(n) == LAYER_DIR)
			TRY(apply_subdir(c, n, there, to, result, err));
		else if (layer_names_kind(n) != LAYER_WHITEOUT)
			take(c, n, there, to);
		else if (there)
			layer_names_remove(c->t, there);
	}
	return 0;
}

int layer_changes_apply(struct layer_changes *c, struct layer_name *result, struct mlr_error *err)
{
	TRY(apply_dir(c, c->top, result, result, err));
	if (!c->top->implied)
		*result->inode = *c->top->inode;
	return 0;
}
