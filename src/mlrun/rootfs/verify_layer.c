#include "rootfs/verify_tree.h"

#include "base/file_owner.h"
#include "base/tighten.h"
#include "layer/changes.h"
#include "layer/record.h"
#include "layer/path.h"

#include <sys/xattr.h>

#define FILES_MAX 20          /* wrong names that are reported */
#define VALUE_MAX (64u << 10) /* the kernel's limit, xattr(7) */

/* A layer's names, as its record says. */
struct comparison {
	struct layer_names *names;
	struct layer_changes changes;
	uint64_t *sums; /* of xattrs; an inode's are their number and then each one's */
	size_t n_sums, room;
	struct strv *files;
};

static void comparison_done(struct comparison *c)
{
	layer_changes_done(&c->changes);
	layer_names_free(c->names);
	free(c->sums);
}

/* --- what the record says ------------------------------------------------------- */

/* A digest in place of a name and a value, since these may be long. */
static uint64_t sum_of(const char *name, const void *value, size_t len)
{
	const struct iovec parts[] = { { (char *)name, strlen(name) + 1 }, { (void *)value, len } };
	char hex[HASH_HEX_SIZE];

	hash_parts(parts, ARRAY_LEN(parts), hex);
	hex[16] = '\0';
	return strtoull(hex, NULL, 16);
}

/* The attributes of a member. A directory that is named twice keeps those of before on disk. */
static uint32_t take_xattrs(struct comparison *c, const struct layer_member *m)
{
	const struct layer_name *before =
		m->kind == LAYER_DIR ? layer_names_at(c->names, c->changes.top, m->path) : NULL;
	uint32_t old = before && layer_names_kind(before) == LAYER_DIR ? before->inode->xattr
								       : LAYER_NO_XATTR;
	uint64_t n_old = old == LAYER_NO_XATTR ? 0 : c->sums[old];
	size_t at = c->n_sums;

	if (m->n_xattrs == 0)
		return old;
	if (c->n_sums + n_old + m->n_xattrs + 1 > c->room) {
		c->room = 2 * c->room + n_old + m->n_xattrs + 64;
		c->sums = xreallocarray(c->sums, c->room, sizeof(*c->sums));
	}
	c->sums[c->n_sums++] = n_old + m->n_xattrs;
	for (uint64_t i = 1; i <= n_old; i++)
		c->sums[c->n_sums++] = c->sums[old + i];
	for (size_t i = 0; i < m->n_xattrs; i++)
		c->sums[c->n_sums++] =
			sum_of(m->xattrs[i].name, m->xattrs[i].value, m->xattrs[i].size);
	return (uint32_t)at;
}

static int take(void *ctx, const struct layer_member *m, struct mlr_error *err)
{
	struct comparison *c = ctx;

	return layer_changes_add(&c->changes, m, take_xattrs(c, m), NULL, err);
}

static int read_names(struct comparison *c, int record_fd, struct mlr_error *err)
{
	static const struct layer_sink sink = { .file = take, .name = take };

	c->names = layer_names_new(LAYER_NAMES_MEMORY);
	TRY(layer_changes_init(&c->changes, c->names, 0, err));
	return layer_tar_headers(record_fd, &sink, c, err);
}

/* --- what the tree says --------------------------------------------------------- */

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

/* Compare times by the second: some file systems store no more. */
static int same_time(time_t is, time_t said)
{
	return is == said || is_end_of_time(is, is < said);
}

static int is_said(const struct comparison *c, uint32_t xattr, uint64_t sum)
{
	const uint64_t *sums = xattr == LAYER_NO_XATTR ? NULL : c->sums + xattr;

	for (uint64_t i = 1; sums && i <= sums[0]; i++)
		if (sums[i] == sum)
			return 1;
	return 0;
}

/* A missing one does not count, as the file system may have refused it; a different value or an
 * extra name does. Ignores overlayfs's own. */
static int xattrs_differ(const struct comparison *c, int dir, const struct layer_name *n)
{
	auto_close int fd =
		openat(dir, n->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : flistxattr(fd, NULL, 0);
	auto_free char *names = NULL, *value = NULL;

	if (len <= 0)
		return 0;
	names = xmalloc((size_t)len);
	value = xmalloc(VALUE_MAX);
	len = flistxattr(fd, names, (size_t)len);
	for (const char *s = names; s < names + len; s += strlen(s) + 1) {
		ssize_t size = -1;

		if (strncmp(s, "user.", 5) == 0 && strncmp(s, "user.overlay.", 13) != 0 &&
			!file_owner_is_xattr(s))
			size = fgetxattr(fd, s, value, VALUE_MAX);
		if (size >= 0 && !is_said(c, n->inode->xattr, sum_of(s, value, (size_t)size)))
			return 1;
	}
	return 0;
}

static int same_target(int dir, const struct layer_name *n)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, n->name, target, sizeof(target) - 1);

	return len >= 0 && (size_t)len == strlen(n->inode->target) &&
		memcmp(target, n->inode->target, (size_t)len) == 0;
}

/* How the entry differs from the layer's name; NULL if it does not. */
static const char *differs(
	const struct comparison *c, int dir, const struct layer_name *n, const struct stat *sb)
{
	static const mode_t types[] = { [LAYER_FILE] = S_IFREG,
		[LAYER_DIR] = S_IFDIR,
		[LAYER_SYMLINK] = S_IFLNK,
		[LAYER_FIFO] = S_IFIFO };
	enum layer_kind kind = layer_names_kind(n);

	if ((sb->st_mode & S_IFMT) != types[kind])
		return "is of another type";
	if (kind == LAYER_SYMLINK)
		return same_target(dir, n) ? NULL : "links to something else";
	if (!n->named)
		return NULL; /* a directory that the tar only uses */
	if ((sb->st_mode & 07777 & ~TIGHTEN_BITS) != (n->inode->mode & ~TIGHTEN_BITS))
		return "has another mode";
	if (kind == LAYER_FILE && !same_time(sb->st_mtim.tv_sec, n->inode->mtime))
		return "was changed (its time differs)";
	return kind != LAYER_FIFO && xattrs_differ(c, dir, n) ? "has other extended attributes"
							      : NULL;
}

static void check_dir(
	struct comparison *c, int parent, const struct layer_name *dir, const char *path);

/* Check a name of the tree that is not in the layer: whiteouts do no harm, nor do directories, but
 * for what is in them. */
static void check_extra(struct comparison *c, int dir, const char *name, const char *path)
{
	auto_free char *sub = xasprintf("%s%s%s", path, *path ? "/" : "", name);
	auto_dir DIR *d = NULL;
	struct stat sb;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0 || layer_whiteout_is(&sb))
		return;
	if (!S_ISDIR(sb.st_mode)) {
		wrong(c, sub, "is not in the layer");
		return;
	}
	d = file_open_dir(dir, name, O_NOFOLLOW);
	for (struct dirent *e; c->files->n <= FILES_MAX && (e = file_next(d));)
		check_extra(c, dirfd(d), e->d_name, sub);
}

/* Check one name of the layer.
 *
 *   path  the directory's, of the layer; is_opaque: it hides what is below it already
 */
static void check_name(
	struct comparison *c, int dir, const struct layer_name *n, const char *path, int is_opaque)
{
	auto_free char *sub = xasprintf("%s%s%s", path, *path ? "/" : "", n->name);
	enum layer_kind kind = layer_names_kind(n);
	struct stat sb;
	int is_missing = fstatat(dir, n->name, &sb, AT_SYMLINK_NOFOLLOW) < 0;
	const char *why = NULL;

	if (is_missing && errno != ENOENT)
		return;
	if (kind == LAYER_WHITEOUT) {
		if (is_missing ? !is_opaque : S_ISDIR(sb.st_mode) && !is_opaque)
			why = is_missing ? "shows what the layers below have there"
					 : "shows what the layers below have in it";
		else if (!is_missing)
			check_extra(c, dir, n->name, path);
	} else {
		why = is_missing ? "is missing" : differs(c, dir, n, &sb);
	}
	if (why)
		wrong(c, sub, why);
	else if (kind == LAYER_DIR)
		check_dir(c, dir, n, sub);
}

/* Compare a directory's names. Skips one that the image's author made unreadable. The recursion is
 * as deep as the layer's paths. */
static void check_dir(
	struct comparison *c, int parent, const struct layer_name *dir, const char *path)
{
	auto_dir DIR *d = file_open_dir(parent, *path ? dir->name : ".", O_NOFOLLOW);
	int is_opaque = d && layer_opaque_is(dirfd(d));

	if (!d)
		return;
	if (dir->opaque && !is_opaque)
		wrong(c, path, "shows what the layers below have in it");
	for (const struct layer_name *n = dir->child; n; n = n->next)
		check_name(c, dirfd(d), n, path, is_opaque);
	for (struct dirent *e; (e = file_next(d));)
		if (!layer_names_find(c->names, dir, e->d_name, strlen(e->d_name)))
			check_extra(c, dirfd(d), e->d_name, path);
}

/* --- both ----------------------------------------------------------------------- */

int rootfs_verify_layer(
	const char *diff_id, int record_fd, int tree_fd, struct strv *files, struct mlr_error *err)
{
	auto_call(comparison_done) struct comparison c = { .files = files };
	char is[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	TRY(layer_rebuild(record_fd, tree_fd, NULL, NULL, is, &bytes, err));
	TRY(read_names(&c, record_fd, err));
	check_dir(&c, tree_fd, c.changes.top, "");
	if (strcmp(is, diff_id) != 0)
		return mlr_fail(err, EBADMSG, "its files give a layer of digest %s", is);
	if (files->n > 0)
		return mlr_fail(err, EBADMSG, "names of its tree are not as in the layer");
	return 0;
}
