#include "export/layers.h"

#include "export/pack.h"
#include "layer/entry.h"
#include "layer/path.h"
#include "rootfs/layers.h"
#include "rootfs/rootfs.h"

/* A walk of the image's trees as overlayfs would show them. */
struct walk {
	struct work *w;
	struct rootfs_names names; /* their owners and full modes, which trees cannot hold */
	struct layer_entry_target to;
	int is_rehearsal; /* find what cannot be read, and write nothing */
};

/* A directory of one tree. */
struct branch {
	int fd, lent; /* file_open_readable()'s */
	struct stat st;
};

/* A directory: the trees that have it, topmost first. */
struct place {
	struct branch *v;
	size_t n;
	char *path; /* "" for the top */
};

static void place_done(struct place *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].lent)
			file_take_back(p->v[i].fd, &p->v[i].st);
		close(p->v[i].fd);
	}
	free(p->v);
	free(p->path);
}

static int fail(
	const struct place *p, const char *name, const char *act, int code, struct mlr_error *err)
{
	const char *slash = *p->path ? "/" : "";

	mlr_fail(err, code, "%s '/%s%s%s': %s", act, p->path, slash, name, strerror(code));
	if (code == EACCES)
		mlr_hint(
			err, "it belongs to another user: pull the image into a store of your own");
	return -code;
}

static int list_names(const struct place *p, struct strv *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		auto_dir DIR *d = file_open_dir(p->v[i].fd, ".", 0);
		struct dirent *e;

		if (!d)
			return fail(p, "", "list", errno, err);
		while ((e = readdir(d)))
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				strv_add(ret, e->d_name);
	}
	return 0;
}

/* Files belong to root unless a layer says otherwise: in the trees all belong to the caller. */
static void set_owner(const struct walk *k, struct archive_entry *e, const char *path)
{
	const struct layer_name *n = layer_names_at(k->names.t, k->names.top, path);

	archive_entry_set_uid(e, n ? n->inode->uid : 0);
	archive_entry_set_gid(e, n ? n->inode->gid : 0);
	archive_entry_set_uname(e, NULL);
	archive_entry_set_gname(e, NULL);
	if (n && archive_entry_filetype(e) != AE_IFLNK)
		archive_entry_set_perm(e, n->inode->mode);
}

/* Open an entry even if the image's author made it unreadable. Trees do not change, so first try
 * without changing the mode. */
static int open_thing(int dir_fd, const char *name, const struct stat *st, int *lent)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	*lent = 0;
	return fd < 0 && errno == EACCES ? file_open_readable(dir_fd, name, st, lent, NULL)
					 : (fd < 0 ? -errno : fd);
}

/* An entry that is this user's and readable by its mode needs no test; a directory is opened to
 * walk it. */
static int rehearse(int dir_fd, const char *name, const struct stat *st)
{
	auto_close int fd = -1;
	int lent;

	if (!S_ISREG(st->st_mode) || ((st->st_mode & S_IRUSR) && st->st_uid == geteuid()))
		return 0;
	fd = open_thing(dir_fd, name, st, &lent);
	return fd < 0 ? fd : 0;
}

static int put_thing(struct walk *k, const struct place *p, int dir_fd, const char *name,
	const struct stat *st, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s%s%s", p->path, *p->path ? "/" : "", name);
	auto_close int fd = -1;
	int r, lent = 0;

	if (S_ISSOCK(st->st_mode) || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return 0;
	if (k->is_rehearsal) {
		r = rehearse(dir_fd, name, st);
		return r < 0 ? fail(p, name, "open", -r, err) : 0;
	}
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) {
		fd = open_thing(dir_fd, name, st, &lent);
		if (fd < 0)
			return fail(p, name, "open", -fd, err);
	}

	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();

	r = layer_entry_describe(e, dir_fd, name, path, st);
	if (r < 0)
		return fail(p, name, "read link", -r, err);
	set_owner(k, e, path);
	r = layer_entry_put(&k->to, e, path, fd, err);
	if (lent)
		file_take_back(fd, st);
	return r;
}

/* Open the directories of one name that show through each other, from tree `from` on. */
static int open_below(const struct place *p, const char *name, size_t from, struct place *ret,
	struct mlr_error *err)
{
	ret->path = xasprintf("%s%s%s", p->path, *p->path ? "/" : "", name);
	ret->v = xcalloc(p->n, sizeof(*ret->v));
	for (size_t i = from; i < p->n; i++) {
		struct branch *b = &ret->v[ret->n];

		if (fstatat(p->v[i].fd, name, &b->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return fail(p, name, "look at", errno, err);
		}
		if (!S_ISDIR(b->st.st_mode))
			break;
		b->fd = file_open_readable(p->v[i].fd, name, &b->st, &b->lent, NULL);
		if (b->fd < 0)
			return fail(p, name, "open", -b->fd, err);
		ret->n++;
		if (layer_opaque_is(b->fd))
			break;
	}
	return 0;
}

static int walk(struct walk *k, const struct place *p, struct mlr_error *err);

static int put_name(struct walk *k, const struct place *p, const char *name, struct mlr_error *err)
{
	auto_call(place_done) struct place below = { 0 };
	struct stat st;
	size_t i = 0;
	int r;

	while (fstatat(p->v[i].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		if (errno != ENOENT || ++i == p->n)
			return fail(p, name, "look at", errno, err);
	if (layer_whiteout_is(&st))
		return 0;
	r = put_thing(k, p, p->v[i].fd, name, &st, err);
	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	TRY(open_below(p, name, i, &below, err));
	return walk(k, &below, err);
}

/* The recursion is at most LAYER_DEPTH_MAX deep, as the trees are. */
static int walk(struct walk *k, const struct place *p, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	const int *cancel = k->w->opt->cancel;
	int r = list_names(p, &names, err);

	strv_sort(&names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		if (i > 0 && strcmp(names.v[i], names.v[i - 1]) == 0)
			continue;
		r = put_name(k, p, names.v[i], err);
		if (r == 0 && cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			r = mlr_fail(err, ECANCELED, "interrupted");
	}
	return r;
}

/* Open the image's trees, as exec would mount them. */
static int open_top(struct work *w, struct place *ret, struct mlr_error *err)
{
	auto_call(plan_done) struct plan p;
	auto_call(store_facts_done) struct store_facts facts = { 0 };

	plan_init(&p);
	TRY(rootfs_plan(store_path(w->st), NULL, w->image->name, 0, &p, &facts, err));
	if (p.lowers.n == 0) {
		mlr_fail(err, ENOTSUP, "the store has it as one squashfs file only");
		return mlr_hint(err, "pull it again with --format=layers");
	}
	ret->path = xstrdup("");
	ret->v = xcalloc(p.lowers.n, sizeof(*ret->v));
	for (size_t i = 0; i < p.lowers.n; i++) {
		struct branch *b = &ret->v[i];

		if (stat(p.lowers.v[i], &b->st) < 0)
			return mlr_fail_errno(err, "look at '%s'", p.lowers.v[i]);
		b->fd = file_open_readable(AT_FDCWD, p.lowers.v[i], &b->st, &b->lent, NULL);
		if (b->fd < 0)
			return mlr_fail(
				err, -b->fd, "open '%s': %s", p.lowers.v[i], strerror(-b->fd));
		ret->n++;
	}
	return 0;
}

/* The tar's bytes count only for its digest. */
static int discard(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	const int *cancel = ctx;

	(void)buf, (void)len;
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED)
		? mlr_fail(err, ECANCELED, "interrupted")
		: 0;
}

/* Read the layers' names, and check their files. */
static int read_layers(struct walk *k, struct mlr_error *err)
{
	const struct strv *ids = &k->w->doc.config.diff_ids;

	for (size_t i = 0; i < ids->n; i++)
		TRY(pack_rebuild(k->w->st, ids->v[i], discard, (void *)k->w->opt->cancel, err));
	return rootfs_names_read(k->w->st, ids, &k->names, err);
}

static int check(void *out, int result, struct mlr_error *err)
{
	return outlet_check(out, result, err);
}

int export_rootfs_write(struct work *w, struct export_result *ret, struct mlr_error *err)
{
	auto_call(place_done) struct place top = { 0 };
	auto_free char *buf = malloc(LAYER_ENTRY_BUFFER);
	struct walk k = { .w = w,
		.to = { .archive = outlet_archive(w->out),
			.buf = buf,
			.check = check,
			.ctx = w->out } };
	struct stat sb;
	int r = 0;

	if (!buf)
		return mlr_fail(err, ENOMEM, "out of memory");
	TRY(open_top(w, &top, err));
	TRY(read_layers(&k, err));
	k.to.links = archive_entry_linkresolver_new();
	if (!k.to.links)
		mlr_oom();
	archive_entry_linkresolver_set_strategy(k.to.links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	/* Find failures before half a tar is on standard output. In the user's own store nothing
	 * fails: unreadable entries can be opened, unless the store is read-only. */
	k.is_rehearsal = 1;
	if (fstat(store_fd(w->st), &sb) < 0 || sb.st_uid != geteuid() ||
		faccessat(store_fd(w->st), ".", W_OK, AT_EACCESS) < 0)
		r = walk(&k, &top, err);
	k.is_rehearsal = 0;
	if (r == 0)
		r = walk(&k, &top, err);
	archive_entry_linkresolver_free(k.to.links);
	rootfs_names_done(&k.names);
	ret->layers = w->doc.config.diff_ids.n;
	return r;
}
