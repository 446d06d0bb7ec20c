#include "rootfs/merge.h"

#include "base/base.h"
#include "layer/archive.h"
#include "layer/path.h"
#include "layer/record.h"
#include "rootfs/fill.h"
#include "rootfs/layers.h"
#include "store/tree.h"

#include <search.h>

/* What the layers say of one path. */
struct node {
	char *path;
	size_t layer, member; /* whose member stays; members are counted from 0 */
	int has_member;
	mode_t type;    /* the member's AE_IF… */
	int is_implied; /* a directory in which a layer has members */
	/* A layer hides what lower ones have in it; by a whiteout, the path as well. */
	int is_cut, is_gone;
	int was_cut, was_gone; /* so says a layer above the one being read */
	/* The member is a hard link to a member that does not stay: it has the file's data, and
	 * other such links are links to it. */
	char *stands_for;
};

struct merge {
	struct store *st;
	char *const *diff_ids;
	size_t n;
	const int *cancel;
	void *nodes; /* a tree, tsearch(3), by path */
	/* While a layer is read: */
	size_t layer, member;
	struct layer_archive *tar;
	int tree;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

static void free_node(void *p)
{
	struct node *n = p;

	free(n->path);
	free(n->stands_for);
	free(n);
}

static struct node *find(const struct merge *m, const char *path)
{
	const struct node key = { .path = (char *)path };
	struct node **found = tfind(&key, &m->nodes, by_path);

	return found ? *found : NULL;
}

static struct node *get(struct merge *m, const char *path)
{
	struct node *n = find(m, path);

	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->path = xstrdup(path);
	if (!tsearch(n, &m->nodes, by_path))
		mlr_oom();
	return n;
}

/* --- which members stay ------------------------------------------------------- */

static int is_cut_above(const struct merge *m, const char *dir)
{
	const struct node *n = find(m, dir);

	return n && n->was_cut;
}

/* Does a layer above this one hide what a directory of the path has? */
static int is_hidden(const struct merge *m, const char *path)
{
	auto_free char *up = xstrdup(path);

	for (char *slash; (slash = strrchr(up, '/'));) {
		*slash = '\0';
		if (is_cut_above(m, up))
			return 1;
	}
	return *path && is_cut_above(m, "");
}

static void imply_parents(struct merge *m, const char *path)
{
	auto_free char *up = xstrdup(path);

	for (char *slash; (slash = strrchr(up, '/'));) {
		*slash = '\0';
		get(m, up)->is_implied = 1;
	}
}

/* "a/.wh.b" hides "a/b"; "a/.wh..wh..opq" what "a" had before. Returns 1 if it is one. */
static int note_mark(struct merge *m, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	auto_free char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int is_opaque = strcmp(name, ".wh..wh..opq") == 0;
	auto_free char *hidden = NULL;
	struct node *n;

	if (strncmp(name, ".wh.", 4) != 0)
		return 0;
	hidden = is_opaque ? xstrdup(dir) : xasprintf("%s%s%s", dir, *dir ? "/" : "", name + 4);
	if (is_hidden(m, hidden))
		return 1;
	imply_parents(m, path);
	n = get(m, hidden);
	n->is_cut = 1;
	n->is_gone |= !is_opaque;
	return 1;
}

/* A member stays unless a layer above has the path, or hides it. What is no directory hides what
 * the path was before, even if it does not stay itself. */
static void note_member(struct merge *m, const char *path, mode_t type)
{
	struct node *n;
	int is_above;

	if (is_hidden(m, path))
		return;
	n = get(m, path);
	is_above = n->was_gone || (n->has_member && n->layer != m->layer);
	if (!is_above && !(n->is_implied && type != AE_IFDIR && type != AE_IFLNK)) {
		n->layer = m->layer;
		n->member = m->member;
		n->has_member = 1;
		n->type = type;
		imply_parents(m, path);
	}
	if (type != AE_IFDIR)
		n->is_cut = 1;
}

static int note(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	struct merge *m = ctx;
	char path[PATH_MAX];
	int r = layer_path_clean(archive_entry_pathname(e), path, err);

	if (r == 0 && !note_mark(m, path))
		note_member(
			m, path, archive_entry_hardlink(e) ? AE_IFREG : archive_entry_filetype(e));
	m->member++;
	return r;
}

/* What this layer hides, it hides from the layers below it. */
static void lower(const void *node, VISIT which, void *ctx)
{
	struct node *n = *(struct node *const *)node;

	(void)ctx;
	if (which == postorder || which == leaf)
		n->was_cut = n->is_cut, n->was_gone = n->is_gone;
}

static int read_headers(struct merge *m, size_t layer, layer_header_fn fn, struct mlr_error *err)
{
	auto_close int record = rootfs_layer_record(m->st, m->diff_ids[layer], err);

	m->layer = layer;
	m->member = 0;
	return record < 0 ? record : layer_headers(record, fn, m, err);
}

/* From the topmost layer down. */
static int choose(struct merge *m, struct mlr_error *err)
{
	for (size_t i = m->n; i-- > 0;) {
		int r = read_headers(m, i, note, err);

		if (r < 0)
			return mlr_wrap(err, "layer %s", m->diff_ids[i]);
		twalk_r(m->nodes, lower, NULL);
	}
	return 0;
}

/* --- the tar ------------------------------------------------------------------- */

/* Does a member of this layer stay? */
static int stays(const struct merge *m, const char *path, size_t layer)
{
	const struct node *n = find(m, path);

	return n && n->has_member && n->layer == layer;
}

struct marking {
	struct merge *m;
	int result;
	struct mlr_error *err;
};

/* A path that is cut needs a mark, unless a file is there now. */
static void mark_one(const void *node, VISIT which, void *ctx)
{
	const struct node *n = *(struct node *const *)node;
	struct marking *k = ctx;
	const char *slash = strrchr(n->path, '/'), *name = slash ? slash + 1 : n->path;
	auto_free char *path = NULL;

	if ((which != postorder && which != leaf) || k->result < 0 || !n->is_cut ||
		(n->has_member && n->type != AE_IFDIR))
		return;
	if (n->has_member || n->is_implied || !*n->path)
		path = xasprintf("%s%s.wh..wh..opq", n->path, *n->path ? "/" : "");
	else
		path = xasprintf("%.*s.wh.%s", (int)(name - n->path), n->path, name);
	k->result = layer_archive_put_mark(k->m->tar, path, k->err);
}

/* A hard link whose target does not stay becomes the file; returns the path to link to, or NULL. */
static const char *settle_link(struct merge *m, const char *path, const char *target)
{
	struct node *n, *first;
	auto_free char *key = NULL;

	if (stays(m, target, m->layer))
		return target;
	/* No path contains "//", so that this is nobody's. */
	key = xasprintf("%zu//%s", m->layer, target);
	first = find(m, key);
	if (first && strcmp(first->stands_for, path) != 0)
		return first->stands_for;
	n = get(m, key);
	if (!n->stands_for)
		n->stands_for = xstrdup(path);
	return NULL;
}

/* A hard link to a symlink that does not stay. */
static int become_symlink(struct archive_entry *e, int parent, const char *name)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(parent, name, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	archive_entry_set_filetype(e, AE_IFLNK);
	archive_entry_set_size(e, 0);
	archive_entry_set_symlink(e, text);
	return 0;
}

/* Open the data of a regular file in the layer's tree. Returns 0 and ret, -1 for a symlink. */
static int open_data(struct merge *m, const char *path, struct archive_entry *e, int *ret,
	int *lent, struct stat *st)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	auto_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	auto_close int parent = file_open_in_root(m->tree, dir, O_RDONLY | O_DIRECTORY, 0);

	if (parent < 0)
		return parent;
	if (fstatat(parent, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st->st_mode))
		return become_symlink(e, parent, name);
	*ret = file_open_readable(parent, name, st, lent);
	archive_entry_set_size(e, st->st_size);
	return *ret < 0 ? *ret : 0;
}

static int put_member(struct merge *m, const char *path, struct archive_entry *e,
	const char *target, struct mlr_error *err)
{
	const char *link = target ? settle_link(m, path, target) : NULL;
	auto_close int fd = -1;
	struct stat st;
	int lent = 0, r = 0;

	if (link) {
		archive_entry_set_hardlink(e, link);
		archive_entry_set_size(e, 0);
	} else if (target || archive_entry_filetype(e) == AE_IFREG) {
		archive_entry_set_hardlink(e, NULL);
		archive_entry_set_filetype(e, AE_IFREG);
		r = open_data(m, path, e, &fd, &lent, &st);
		if (r < 0)
			mlr_fail(err, -r, "open '/%s': %s", path, strerror(-r));
	}
	if (r == 0)
		r = layer_archive_put_plain(m->tar, e, path, fd, err);
	if (lent)
		file_take_back(fd, &st);
	return r;
}

static int put(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	struct merge *m = ctx;
	size_t member = m->member++;
	char path[PATH_MAX], target[PATH_MAX];
	const struct node *n;
	int r;

	if (m->cancel && __atomic_load_n(m->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	r = layer_path_clean(archive_entry_pathname(e), path, err);
	n = r == 0 ? find(m, path) : NULL;
	if (!n || !n->has_member || n->layer != m->layer || n->member != member)
		return r;
	if (archive_entry_hardlink(e))
		r = layer_path_clean(archive_entry_hardlink(e), target, err);
	return r < 0 ? r : put_member(m, path, e, archive_entry_hardlink(e) ? target : NULL, err);
}

static int put_layer(struct merge *m, size_t i, struct mlr_error *err)
{
	auto_close int tree = store_tree_open(m->st, STORE_LAYER, m->diff_ids[i], err);
	int r = m->tree = tree;

	if (r >= 0)
		r = read_headers(m, i, put, err);
	return r < 0 ? mlr_wrap(err, "layer %s", m->diff_ids[i]) : 0;
}

static int write_tar(void *ctx, layer_write_fn write, void *to, struct mlr_error *err)
{
	struct merge *m = ctx;
	struct marking k = { m, 0, err };
	int r;

	TRY(layer_archive_open(write, to, &m->tar, err));
	twalk_r(m->nodes, mark_one, &k);
	r = k.result;
	for (size_t i = 0; i < m->n && r == 0; i++)
		r = put_layer(m, i, err);
	return layer_archive_close(m->tar, r, err);
}

int rootfs_merge(struct store *st, char *const *diff_ids, size_t n, const int *cancel,
	char ret[OCI_DIGEST_SIZE], uint64_t *bytes, struct mlr_error *err)
{
	struct merge m = { .st = st, .diff_ids = diff_ids, .n = n, .cancel = cancel };
	struct layer_locale utf8 = { 0 };
	int r;

	layer_locale_begin(&utf8, "C.UTF-8");
	r = choose(&m, err);
	layer_locale_end(&utf8);
	if (r == 0)
		r = rootfs_fill_digest(write_tar, &m, ret, bytes, err);
	if (r == 0)
		r = rootfs_fill(st, ret, write_tar, &m, err);
	tdestroy(m.nodes, free_node);
	return r < 0 ? mlr_wrap(err, "merge the layers") : 0;
}
