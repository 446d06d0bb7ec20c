#include "rootfs/merge.h"

#include "layer/archive.h"
#include "layer/names.h"
#include "layer/path.h"
#include "rootfs/fill.h"
#include "rootfs/layers.h"
#include "store/tree.h"

/* Marks of a path; WAS: so says a layer above the one being read. */
enum { GONE = 1, WAS_OPAQUE = 2, WAS_GONE = 4 };

struct merge {
	struct store *st;
	char *const *diff_ids;
	size_t n;
	const int *cancel;
	/*
	 * Each path as the members spell it. A named one has a member that stays: its layer, its
	 * ordinal in the layer, its kind. An implied one is a directory in which a layer has
	 * members. A layer hides what lower ones have in an opaque one, and in one that is gone the
	 * path as well.
	 */
	struct layer_names *names;
	struct layer_name *top;
	/* While a layer is read: */
	size_t layer, member;
	struct layer_archive *tar;
	int tree;
	/* Targets of hard links to members that do not stay. The first such link has the file's
	 * data, and is its inode's target; others are links to it. */
	struct layer_name *links;
};

static struct layer_name *find(const struct merge *m, const char *path)
{
	return layer_names_at(m->names, m->top, path);
}

/* --- which members stay ------------------------------------------------------- */

/* Does a layer above this one hide what a directory of the path has? */
static int is_hidden(const struct layer_name *n)
{
	while ((n = n->parent))
		if (n->marks & WAS_OPAQUE)
			return 1;
	return 0;
}

static void imply_parents(struct layer_name *n)
{
	while ((n = n->parent))
		n->implied = 1;
}

/* "a/.wh.b" hides "a/b"; "a/.wh..wh..opq" what "a" had before. */
static int note_mark(struct merge *m, const char *path, const char *name, struct mlr_error *err)
{
	int is_opaque = strcmp(name, ".wh..wh..opq") == 0;
	int dir = (int)(name - path);
	auto_free char *hidden = is_opaque ? xstrndup(path, dir > 0 ? (size_t)dir - 1 : 0)
					   : xasprintf("%.*s%s", dir, path, name + 4);
	struct layer_name *n;

	TRY(layer_names_get(m->names, m->top, hidden, &n, err));
	if (is_hidden(n))
		return 0;
	imply_parents(n);
	n->implied |= is_opaque; /* it has the mark itself */
	n->opaque = 1;
	n->marks |= is_opaque ? 0 : GONE;
	return 0;
}

/* A member stays unless a layer above has the path, or hides it. What is no directory hides what
 * the path was before, even if it does not stay itself. */
static int note_member(
	struct merge *m, const char *path, enum layer_kind kind, struct mlr_error *err)
{
	struct layer_name *n;
	int is_above;

	TRY(layer_names_get(m->names, m->top, path, &n, err));
	if (is_hidden(n))
		return 0;
	is_above = (n->marks & WAS_GONE) || (n->named && n->inode->layer != m->layer);
	if (!is_above && !(n->implied && kind != LAYER_DIR && kind != LAYER_SYMLINK)) {
		n->named = 1;
		n->inode->layer = m->layer & 0x7fff;
		n->inode->ordinal = (uint32_t)m->member;
		n->inode->kind = kind;
		imply_parents(n);
	}
	if (kind != LAYER_DIR)
		n->opaque = 1;
	return 0;
}

static enum layer_kind kind_of(struct archive_entry *e)
{
	mode_t type = archive_entry_hardlink(e) ? AE_IFREG : archive_entry_filetype(e);

	return type == AE_IFDIR ? LAYER_DIR : type == AE_IFLNK ? LAYER_SYMLINK : LAYER_FILE;
}

static int note(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	struct merge *m = ctx;
	char path[PATH_MAX];
	const char *name;

	TRY(layer_path_clean(archive_entry_pathname(e), path, err));
	name = path_base(path);
	TRY(strncmp(name, ".wh.", 4) == 0 ? note_mark(m, path, name, err)
					  : note_member(m, path, kind_of(e), err));
	m->member++;
	return 0;
}

/* Names that this layer hides are hidden only in the layers below it. */
static void lower(struct layer_name *dir)
{
	dir->marks |= (dir->opaque ? WAS_OPAQUE : 0) | (dir->marks & GONE ? WAS_GONE : 0);
	for (struct layer_name *n = dir->child; n; n = n->next)
		lower(n);
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
		lower(m->top);
	}
	return 0;
}

/* --- the tar ------------------------------------------------------------------- */

/* Find the paths that need a mark: hidden ones, unless a file is there now. */
static void list_marks(const struct layer_name *dir, struct strv *ret)
{
	if (dir->opaque && !(dir->named && dir->inode->kind != LAYER_DIR))
		strv_take(ret, dir->parent ? layer_names_path(dir) : xstrdup(""));
	for (const struct layer_name *n = dir->child; n; n = n->next)
		list_marks(n, ret);
}

static int put_marks(struct merge *m, struct mlr_error *err)
{
	auto_strv struct strv paths = STRV_INIT;

	list_marks(m->top, &paths);
	strv_sort(&paths);
	for (size_t i = 0; i < paths.n; i++) {
		const struct layer_name *n = find(m, paths.v[i]);
		int before = (int)(strlen(paths.v[i]) - n->len);
		auto_free char *mark = n->named || n->implied || !n->parent
			? xasprintf("%s%s.wh..wh..opq", paths.v[i], n->parent ? "/" : "")
			: xasprintf("%.*s.wh.%s", before, paths.v[i], n->name);

		TRY(layer_archive_put_mark(m->tar, mark, err));
	}
	return 0;
}

/* A hard link whose target does not stay becomes the file; ret gets the path to link to, or NULL.
 */
static int settle_link(struct merge *m, const char *path, const char *target, const char **ret,
	struct mlr_error *err)
{
	const struct layer_name *n = find(m, target);
	struct layer_name *first;

	*ret = target;
	if (n && n->named && n->inode->layer == m->layer)
		return 0;
	TRY(layer_names_get(m->names, m->links, target, &first, err));
	*ret = first->inode->target;
	if (*ret && strcmp(*ret, path) == 0)
		*ret = NULL;
	if (first->inode->target)
		return 0;
	first->inode->target = layer_names_alloc(m->names, strlen(path) + 1, err);
	if (!first->inode->target)
		return layer_names_failed(err);
	strcpy(first->inode->target, path);
	return 0;
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
	const char *name = path_base(path);
	auto_free char *dir = path_dir(path);
	auto_close int parent = file_open_in_root(m->tree, dir, O_RDONLY | O_DIRECTORY, 0);

	if (parent < 0)
		return parent;
	if (fstatat(parent, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st->st_mode))
		return become_symlink(e, parent, name);
	*ret = file_open_readable(parent, name, st, lent, NULL);
	archive_entry_set_size(e, st->st_size);
	return *ret < 0 ? *ret : 0;
}

static int put_member(struct merge *m, const char *path, struct archive_entry *e,
	const char *target, struct mlr_error *err)
{
	const char *link = NULL;
	auto_close int fd = -1;
	struct stat st;
	int lent = 0, r = 0;

	if (target)
		TRY(settle_link(m, path, target, &link, err));
	if (link) {
		archive_entry_set_hardlink(e, link);
		archive_entry_set_size(e, 0);
	} else if (target || archive_entry_filetype(e) == AE_IFREG) {
		archive_entry_set_hardlink(e, NULL);
		archive_entry_set_filetype(e, AE_IFREG);
		r = open_data(m, path, e, &fd, &lent, &st);
		if (r < 0)
			mlr_result(err, r, "open '/%s'", path);
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
	const struct layer_name *n;
	int r;

	if (m->cancel && __atomic_load_n(m->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	r = layer_path_clean(archive_entry_pathname(e), path, err);
	n = r == 0 ? find(m, path) : NULL;
	if (!n || !n->named || n->inode->layer != m->layer || n->inode->ordinal != member)
		return r;
	if (archive_entry_hardlink(e))
		r = layer_path_clean(archive_entry_hardlink(e), target, err);
	return r < 0 ? r : put_member(m, path, e, archive_entry_hardlink(e) ? target : NULL, err);
}

static int put_layer(struct merge *m, size_t i, struct mlr_error *err)
{
	auto_close int tree = store_tree_open(m->st, STORE_LAYER, m->diff_ids[i], err);
	int r = m->tree = tree;

	m->links = layer_names_top(m->names, err);
	if (r >= 0)
		r = m->links ? read_headers(m, i, put, err) : layer_names_failed(err);
	return r < 0 ? mlr_wrap(err, "layer %s", m->diff_ids[i]) : 0;
}

static int write_tar(void *ctx, layer_write_fn write, void *to, struct mlr_error *err)
{
	struct merge *m = ctx;
	int r;

	TRY(layer_archive_open(write, to, &m->tar, err));
	r = put_marks(m, err);
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

	m.names = layer_names_new(LAYER_NAMES_MEMORY);
	m.top = layer_names_top(m.names, err);
	layer_locale_begin(&utf8, "C.UTF-8");
	r = m.top ? choose(&m, err) : layer_names_failed(err);
	layer_locale_end(&utf8);
	if (r == 0)
		r = rootfs_fill_digest(write_tar, &m, ret, bytes, err);
	if (r == 0)
		r = rootfs_fill(st, ret, write_tar, &m, err);
	layer_names_free(m.names);
	return r < 0 ? mlr_wrap(err, "merge the layers") : 0;
}
