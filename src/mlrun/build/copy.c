#include "build/copy.h"

#include "layer/archive.h"
#include "layer/entry.h"
#include "layer/names.h"
#include "oci/digest.h"

#include <fnmatch.h>

static void item_done(struct copy_item *item)
{
	free(item->from);
	free(item->to);
	free(item->link);
	free(item->bytes);
	fd_close(&item->fd);
}

void copy_done(struct copy *c)
{
	for (size_t i = 0; i < c->n; i++)
		item_done(&c->v[i]);
	rootfs_names_done(&c->names);
	free(c->v);
	c->v = NULL;
	c->n = 0;
}

static int is_stopped(const struct copy *c, struct mlr_error *err)
{
	return c->cancel && __atomic_load_n(c->cancel, __ATOMIC_RELAXED)
		? mlr_fail(err, ECANCELED, "interrupted")
		: 0;
}

static char *joined(const char *dir, const char *name)
{
	return *dir ? xasprintf("%s/%s", dir, name) : xstrdup(name);
}

/* --- the list --------------------------------------------------------------- */

static struct copy_item *add_item(
	struct copy *c, const char *from, const char *to, const struct stat *st)
{
	struct copy_item *item;

	item = xadd(c->v, c->n);
	*item = (struct copy_item){ .from = from ? xstrdup(from) : NULL,
		.to = xstrdup(to + strspn(to, "/")),
		.fd = -1,
		.st = *st };
	return item;
}

int copy_has_directory(const struct copy *c, const char *to)
{
	for (size_t i = c->n; i-- > 0;)
		if (path_below(c->v[i].to, to + 1))
			return c->v[i].to[strlen(to + 1)] || S_ISDIR(c->v[i].st.st_mode);
	return 0;
}

void copy_add_bytes(struct copy *c, const char *to, const char *bytes)
{
	struct stat st = { .st_mode = S_IFREG | 0644, .st_mtime = c->newest };
	struct copy_item *item = add_item(c, NULL, to, &st);

	item->bytes = xstrdup(bytes);
}

void copy_take_file(struct copy *c, const char *to, int fd, mode_t mode, int is_archive)
{
	struct stat st = { 0 };
	struct copy_item *item;

	(void)fstat(fd, &st);
	st.st_mode = S_IFREG | mode;
	item = add_item(c, NULL, to, &st);
	item->fd = fd;
	item->is_archive = is_archive;
}

void copy_add_directory(struct copy *c, const char *to, const struct stat *st)
{
	add_item(c, NULL, to, st);
}

static int fail(const struct copy *c, const char *path, int code, struct mlr_error *err)
{
	return mlr_fail(err, code, "'%s' in %s: %s", path, c->source.what, strerror(code));
}

/* Open what a recipe names: links below the source are followed. */
static int open_place(const struct copy *c, const char *path, int flags)
{
	return file_open_in_root(c->source.fd, *path ? path : ".", flags, 0);
}

/* Open what was found, whose path has no links: if others may write the source, one that has come
 * meanwhile would lead to what the ignore file leaves out. */
static int open_found(const struct copy *c, const char *path, int flags)
{
	return file_open_beneath(c->source.fd, *path ? path : ".", flags | O_NOFOLLOW);
}

/* Links and fifos cannot record their owner; the layer tells it. */
static void find_owner(struct copy *c, struct copy_item *item)
{
	const struct copy_source *s = &c->source;
	const struct layer_name *n;

	if (!s->layers || (!c->names.t && rootfs_names_read(s->st, s->layers, &c->names, NULL) < 0))
		return;
	n = layer_names_at(c->names.t, c->names.top, item->from);
	if (n && n->inode)
		item->owner = (struct file_owner){ n->inode->uid, n->inode->gid, n->inode->mode };
}

/* Add what is at a place of the source, open as fd. */
static struct copy_item *add_found(
	struct copy *c, const char *from, const char *to, int fd, const struct stat *st)
{
	struct copy_item *item = add_item(c, from, to, st);
	auto_close int own = -1;
	char path[32];
	int lent;

	if (!c->source.is_image)
		return item;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (S_ISREG(st->st_mode) && !(st->st_mode & S_IRUSR)) /* a USER may have shut it */
		own = file_reopen_readable(fd, st, &lent, &item->owner);
	else if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		file_owner_get(path, &item->owner);
	else
		find_owner(c, item);
	return item;
}

static int is_ignored(
	const struct copy *c, const struct copy_wish *w, const char *path, const char *below)
{
	return (c->source.ignore && ignore_match(c->source.ignore, path)) ||
		(w->exclude && ignore_match(w->exclude, below));
}

static int may_have_exceptions(const struct copy *c, const struct copy_wish *w)
{
	return (c->source.ignore && c->source.ignore->has_exceptions) ||
		(w->exclude && w->exclude->has_exceptions);
}

/* A file being added: its place in the source, and in the image. */
struct place {
	const char *from, *to;
	const char *below; /* the path below what the wish names, for --exclude */
	int is_top;        /* the wish names it: of a directory only the content is copied */
	const struct place *up;
};

static int add_place(
	struct copy *c, const struct copy_wish *w, const struct place *p, struct mlr_error *err);

static int add_content(
	struct copy *c, const struct copy_wish *w, const struct place *p, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_close int fd = open_found(c, p->from, O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? fd : file_list(fd, ".", 0, &names);

	if (r < 0)
		return fail(c, p->from, -r, err);
	for (size_t i = 0; i < names.n && r == 0; i++) {
		auto_free char *from = joined(p->from, names.v[i]);
		auto_free char *to = joined(p->to, names.v[i]);
		auto_free char *below = joined(p->below, names.v[i]);

		r = add_place(c, w, &(struct place){ from, to, below, 0, p }, err);
	}
	return r;
}

/* A directory that is left out appears only if something in it does not. */
static int add_directory(struct copy *c, const struct copy_wish *w, const struct place *p, int fd,
	const struct stat *st, int ignored, struct mlr_error *err)
{
	size_t at = c->n;
	int r;

	if (ignored && !may_have_exceptions(c, w))
		return 0;
	add_found(c, p->from, p->to, fd, st);
	r = add_content(c, w, p, err);
	if (r == 0 && ignored && c->n == at + 1) {
		c->n--;
		free(c->v[at].from);
		free(c->v[at].to);
	}
	return r;
}

static int add_link(
	struct copy *c, const struct place *p, int fd, const struct stat *st, struct mlr_error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	if (n < 0)
		return fail(c, p->from, errno, err);
	target[n] = '\0';
	add_found(c, p->from, p->to, fd, st)->link = xstrdup(target);
	return 0;
}

/* Add what a link leads to. */
static int add_followed(
	struct copy *c, const struct copy_wish *w, const struct place *p, struct mlr_error *err)
{
	auto_close int fd = open_place(c, p->from, O_PATH);
	auto_free char *real = fd < 0 ? NULL : file_fd_below(c->source.fd, fd);

	if (!real)
		return fail(c, p->from, fd < 0 ? -fd : ESTALE, err);
	for (const struct place *up = p->up; up; up = up->up)
		if (strcmp(up->from, real) == 0)
			return fail(c, p->from, ELOOP, err);
	return add_place(c, w, &(struct place){ real, p->to, p->below, 0, p->up }, err);
}

static int add_place(
	struct copy *c, const struct copy_wish *w, const struct place *p, struct mlr_error *err)
{
	auto_close int fd = open_found(c, p->from, O_PATH);
	int ignored = *p->from && is_ignored(c, w, p->from, p->below), r = is_stopped(c, err);
	struct stat st;

	TRY(r);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(c, p->from, fd < 0 ? -fd : errno, err);
	if (S_ISDIR(st.st_mode) && p->is_top)
		return add_content(c, w, p, err);
	if (S_ISDIR(st.st_mode))
		return add_directory(c, w, p, fd, &st, ignored, err);
	if (ignored)
		return 0;
	if (S_ISLNK(st.st_mode))
		return w->follow ? add_followed(c, w, p, err) : add_link(c, p, fd, &st, err);
	/* Sockets and the like have no content that a layer could hold. */
	if (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode))
		add_found(c, p->from, p->to, fd, &st);
	return 0;
}

/* --- wildcards -------------------------------------------------------------- */

/* Does the ignore file leave out a file, or all that is in a directory? */
static int is_left_out(const struct copy *c, const char *path)
{
	const struct ignore *g = c->source.ignore;

	return g && !g->has_exceptions && ignore_match(g, path);
}

/* The paths that a pattern matches, from the directory done on. A path without wildcards is
 * certain, and need not exist. */
static int expand(const struct copy *c, const char *done, const char *rest, int is_certain,
	struct strv *ret, struct mlr_error *err)
{
	size_t len = strcspn(rest, "/");
	auto_free char *name = xstrndup(rest, len);
	const char *next = rest + len + strspn(rest + len, "/");
	auto_strv struct strv names = STRV_INIT;
	auto_close int dir = -1;

	if (!*rest) {
		auto_close int fd = is_certain ? -1 : open_place(c, done, O_PATH | O_NOFOLLOW);

		if (is_certain || (fd >= 0 && !is_left_out(c, done)))
			strv_add(ret, done);
		return 0;
	}
	if (!strpbrk(name, "*?[\\")) {
		auto_free char *path = joined(done, name);

		return expand(c, path, next, is_certain, ret, err);
	}
	dir = open_place(c, done, O_RDONLY | O_DIRECTORY);
	if (dir < 0 || file_list(dir, ".", 0, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = joined(done, names.v[i]);

		TRY(fnmatch(name, names.v[i], 0) == 0 ? expand(c, path, next, 0, ret, err) : 0);
	}
	return 0;
}

static int not_found(
	const struct copy *c, const struct copy_wish *w, const char *path, struct mlr_error *err)
{
	mlr_fail(err, ENOENT, "'%s' is not in %s", w->pattern, c->source.what);
	if (c->source.ignore && *path && ignore_match(c->source.ignore, path))
		mlr_hint(err, "the ignore file leaves it out");
	return -ENOENT;
}

/* Find the part of a path that --parents keeps: all, or what follows "/./" in the pattern. */
static const char *kept_of(const char *pattern, const char *path)
{
	const char *pivot = strstr(pattern, "/./");

	for (const char *s = pattern; pivot && s < pivot; s += strcspn(s, "/")) {
		s += strspn(s, "/");
		if (strncmp(s, "./", 2) == 0)
			continue;
		path += strcspn(path, "/");
		path += strspn(path, "/");
	}
	return path;
}

/* Where a source goes. */
static char *target_of(const struct copy_wish *w, const char *path, int is_directory)
{
	if (w->parents)
		return xasprintf("%s/%s", w->to, kept_of(w->pattern, path));
	return (is_directory && !w->with_name) || !w->to_is_directory
		? xstrdup(w->to)
		: xasprintf("%s/%s", w->to, path_base(path));
}

static int is_archive(const struct copy *c, const char *path)
{
	auto_close int fd = open_found(c, path, O_RDONLY | O_NONBLOCK);

	return fd >= 0 && layer_archive_is_tar(fd);
}

static int add_source(
	struct copy *c, const struct copy_wish *w, const char *path, struct mlr_error *err)
{
	auto_close int fd = open_place(c, path, O_PATH);
	auto_free char *to = NULL, *clean = NULL, *real = NULL;
	struct stat st;
	size_t before = c->n;
	int r, is_directory;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? not_found(c, w, path, err)
						       : fail(c, path, fd < 0 ? -fd : errno, err);
	/* Without links: so the ignore file judges, and so it is opened again. */
	real = file_fd_below(c->source.fd, fd);
	if (!real)
		return fail(c, path, ESTALE, err);
	if (c->source.ignore && strcmp(real, path) != 0 && ignore_match(c->source.ignore, path))
		return not_found(c, w, path, err);
	is_directory = S_ISDIR(st.st_mode);
	/* How a context was brought here says nothing of the image. */
	if (is_directory && !*path && !c->source.is_image)
		st.st_mode = S_IFDIR | 0755;
	if (w->unpack && S_ISREG(st.st_mode) && is_archive(c, real)) {
		if (is_ignored(c, w, real, path_base(path)))
			return not_found(c, w, path, err);
		add_item(c, real, w->to, &st)->is_archive = 1;
		return 0;
	}
	to = target_of(w, path, is_directory);
	clean = path_clean(to);
	if (is_directory && strcmp(clean, "/") != 0 && !(w->to_exists && strcmp(clean, w->to) == 0))
		add_found(c, real, clean, fd, &st);
	r = add_place(c, w,
		&(struct place){ real, clean, is_directory ? "" : path_base(path), 1, NULL }, err);
	if (r == 0 && !is_directory && c->n == before)
		return not_found(c, w, path, err);
	return r;
}

int copy_add(struct copy *c, const struct copy_wish *w, struct mlr_error *err)
{
	auto_free char *absolute = xasprintf("/%s", w->pattern), *clean = path_clean(absolute);
	auto_strv struct strv paths = STRV_INIT;
	int r = expand(c, "", clean + 1, 1, &paths, err);

	if (r == 0 && paths.n > 1 && !w->to_is_directory)
		r = mlr_fail(err, EINVAL,
			"'%s' matches %zu files, and the destination '%s' is no directory: end it with /",
			w->pattern, paths.n, w->to);
	for (size_t i = 0; i < paths.n && r == 0; i++)
		r = add_source(c, w, paths.v[i], err);
	return r < 0 ? r : (int)paths.n;
}

/* --- hash and tar ----------------------------------------------------------- */

/* The mode that a file has in the image. */
static mode_t mode_of(const struct copy *c, const struct copy_item *item)
{
	mode_t mode = item->st.st_mode;

	if (S_ISLNK(mode))
		return mode;
	if (c->mode >= 0 && (item->from || !S_ISDIR(mode)))
		return (mode & S_IFMT) | (mode_t)c->mode;
	return file_owner_mode(&item->owner, mode);
}

/* The owner: files of an image keep theirs. */
static int64_t uid_of(const struct copy *c, const struct copy_item *item)
{
	return c->source.is_image && !c->has_owner && item->from ? item->owner.uid : c->uid;
}

static int64_t gid_of(const struct copy *c, const struct copy_item *item)
{
	return c->source.is_image && !c->has_owner && item->from ? item->owner.gid : c->gid;
}

static int by_target(const void *a, const void *b)
{
	const struct copy_item *x = a, *y = b;

	int r = strcmp(x->to, y->to);

	return r ? r : x->is_archive - y->is_archive;
}

/* Sort, and of several items for one place keep the last. qsort() of equals has no order, so the
 * earlier ones are dropped first. */
static void settle(struct copy *c)
{
	struct copy_item *v = c->v;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		v[i].order = i;
	sort_all(v, c->n, by_target);
	for (size_t i = 0; i < c->n; i++) {
		if (n > 0 && strcmp(v[n - 1].to, v[i].to) == 0 && !v[i].is_archive &&
			!v[n - 1].is_archive) {
			struct copy_item *older = v[n - 1].order < v[i].order ? &v[n - 1] : &v[i];
			struct copy_item gone = *older;

			v[n - 1] = older == &v[n - 1] ? v[i] : v[n - 1];
			item_done(&gone);
			continue;
		}
		v[n++] = v[i];
	}
	c->n = n;
}

static int open_item(struct copy *c, const struct copy_item *item, struct mlr_error *err)
{
	auto_close int place = open_found(c, item->from, O_PATH);
	int lent, fd = place;

	if (place >= 0 && c->source.is_image && S_ISREG(item->st.st_mode))
		fd = file_reopen_readable(place, &item->st, &lent, NULL);
	else if (place >= 0)
		fd = open_found(c, item->from, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		fail(c, item->from, -fd, err);
	return fd;
}

static int hash_content(struct copy *c, const struct copy_item *item, char hex[HASH_HEX_SIZE],
	struct mlr_error *err)
{
	auto_close int fd = -1;
	int r;

	if (item->bytes) {
		hash_buffer(item->bytes, strlen(item->bytes), hex);
		return 0;
	}
	if (item->fd >= 0) {
		return mlr_result(
			err, hash_fd(item->fd, NULL, NULL, hex, NULL), "read '/%s'", item->to);
	}
	fd = open_item(c, item, err);
	r = fd < 0 ? fd : hash_fd(fd, NULL, NULL, hex, NULL);
	return r < 0 && fd >= 0 ? fail(c, item->from, -r, err) : r;
}

int copy_check(struct copy *c, size_t at, const char *want, struct mlr_error *err)
{
	const struct copy_item *last = c->n == at + 1 ? &c->v[at] : NULL;
	char hex[HASH_HEX_SIZE];

	if (oci_digest_check(want, err) < 0)
		return mlr_wrap(err, "--checksum");
	if (!last || !S_ISREG(last->st.st_mode))
		return mlr_fail(err, EINVAL, "--checksum is for one file");
	TRY(hash_content(c, last, hex, err));
	return strcmp(oci_digest_hex(want), hex) == 0
		? 0
		: mlr_fail(err, EBADMSG, "--checksum=%s: '%s' is sha256:%s", want, last->from, hex);
}

#define SETTLED_S 2 /* a file system's clock may be so coarse */

int copy_hash_stat(struct copy *c, char hex[HASH_HEX_SIZE])
{
	auto_hash struct hash *all = hash_new();
	time_t now = time(NULL);

	settle(c);
	for (size_t i = 0; i < c->n; i++) {
		const struct copy_item *item = &c->v[i];
		const struct stat *st = &item->st, made = { 0 };
		auto_free char *text = NULL;

		if ((!item->from && !S_ISDIR(st->st_mode)) || st->st_ctime + SETTLED_S >= now)
			return 0;
		if (!item->from) /* made now */
			st = &made;
		text = xasprintf("%s %o %lld:%lld %d %llx:%llx %lld %lld.%09ld %lld.%09ld %s",
			item->to, mode_of(c, item), (long long)uid_of(c, item),
			(long long)gid_of(c, item), item->is_archive,
			(unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
			(long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			(long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec,
			item->link ? item->link : "");
		hash_update(all, text, strlen(text) + 1);
	}
	hash_final(all, hex);
	return 1;
}

int copy_hash(struct copy *c, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_hash struct hash *all = hash_new();

	settle(c);
	for (size_t i = 0; i < c->n; i++) {
		const struct copy_item *item = &c->v[i];
		char content[HASH_HEX_SIZE] = "";
		auto_free char *rest = NULL;
		int r = is_stopped(c, err);

		if (r == 0 && S_ISREG(item->st.st_mode))
			r = hash_content(c, item, content, err);
		TRY(r);
		rest = xasprintf("%o %lld:%lld %d %s %s", mode_of(c, item),
			(long long)uid_of(c, item), (long long)gid_of(c, item), item->is_archive,
			content, item->link ? item->link : "");
		hash_update(all, item->to, strlen(item->to) + 1);
		hash_update(all, rest, strlen(rest) + 1);
	}
	hash_final(all, hex);
	return 0;
}

static int is_changed(const struct copy *c, const struct copy_item *item)
{
	auto_close int fd = open_found(c, item->from, O_PATH);
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 || st.st_ino != item->st.st_ino ||
		st.st_size != item->st.st_size || st.st_ctim.tv_sec != item->st.st_ctim.tv_sec ||
		st.st_ctim.tv_nsec != item->st.st_ctim.tv_nsec;
}

int copy_has_changed(const struct copy *c)
{
	for (size_t i = 0; i < c->n && !c->source.is_image; i++)
		if (c->v[i].from && is_changed(c, &c->v[i]))
			return 1;
	return 0;
}

static int put_archive(struct copy *c, struct layer_archive *a, const struct copy_item *item,
	struct mlr_error *err)
{
	const struct layer_archive_merge how = { .prefix = item->to,
		.uid = c->has_owner ? c->uid : -1,
		.gid = c->has_owner ? c->gid : -1,
		.newest = c->newest,
		.cancel = c->cancel };
	auto_close int fd =
		item->fd < 0 ? open_item(c, item, err) : fcntl(item->fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? fd : layer_archive_merge(a, fd, &how, err);

	return r < 0 ? mlr_wrap(err, "archive '%s'", item->from ? item->from : item->to) : 0;
}

/* A layer would take such a name for the mark of a removed file (image-spec, layer.md). */
static int is_whiteout(const char *to)
{
	return strncmp(to, ".wh.", 4) == 0 || strstr(to, "/.wh.") != NULL;
}

static int put_item(struct copy *c, struct layer_archive *a, const struct copy_item *item,
	struct mlr_error *err)
{
	auto_close int fd = -1;
	struct stat st = item->st;

	if (is_whiteout(item->to))
		return mlr_fail(err, EINVAL,
			"'/%s': no layer can hold a name that begins with '.wh.'", item->to);
	if (item->is_archive)
		return put_archive(c, a, item, err);

	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();

	st.st_mode = mode_of(c, item);
	if (item->fd >= 0)
		st.st_nlink = 1;
	if (c->newest && st.st_mtime > c->newest) {
		st.st_mtim.tv_sec = c->newest;
		st.st_mtim.tv_nsec = 0;
	}
	archive_entry_copy_stat(e, &st);
	archive_entry_set_pathname(e, item->to);
	archive_entry_set_uid(e, uid_of(c, item));
	archive_entry_set_gid(e, gid_of(c, item));
	if (item->link)
		archive_entry_set_symlink(e, item->link);
	if (item->bytes)
		return layer_archive_put_bytes(a, e, item->bytes, strlen(item->bytes), err);
	if (item->fd >= 0)
		TRY(fd = fcntl(item->fd, F_DUPFD_CLOEXEC, 3));
	else if (item->from && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		TRY(fd = open_item(c, item, err));
	return layer_archive_put(a, e, item->to, fd, err);
}

int copy_tar(void *copy, layer_write_fn write, void *to, struct mlr_error *err)
{
	struct copy *c = copy;
	struct layer_archive *a;
	int r = layer_archive_open(write, to, &a, err);

	TRY(r);
	for (size_t i = 0; i < c->n && r == 0; i++) {
		r = is_stopped(c, err);
		if (r == 0)
			r = put_item(c, a, &c->v[i], err);
	}
	return layer_archive_close(a, r, err);
}
