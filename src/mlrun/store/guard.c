#include "store/guard.h"

#include "base/account.h"
#include "base/tighten.h"
#include "store/format.h"
#include "store/handle.h"
#include "store/open_dirs.h"

struct seen {
	size_t n;
	struct strv open; /* as in the note */
	char *foreign;    /* a file of another user */
	uid_t uid;
	uid_t owner;
};

static void seen_done(struct seen *s)
{
	strv_done(&s->open);
	free(s->foreign);
}

static void see(void *ctx, const char *path, const struct stat *st)
{
	struct seen *s = ctx;

	s->n++;
	if (S_ISDIR(st->st_mode) && (st->st_mode & S_IWOTH) && s->open.n < STORE_OPEN_MAX)
		strv_addf(&s->open, "%o %s", (unsigned)st->st_mode & 01777, path);
	if (st->st_uid == s->owner || s->foreign)
		return;
	s->foreign = xstrdup(path);
	s->uid = st->st_uid;
}

/* Write a tree's note of open directories; an earlier one, of a repair that was interrupted, stays.
 */
static int note_open(
	struct store *st, const char *path, const struct strv *open, struct mlr_error *err)
{
	auto_free char *note = xasprintf("%s/" STORE_OPEN_NOTE, path);

	if (open->n == 0 || strncmp(path, "layers/", 7) != 0 ||
		faccessat(store_fd(st), note, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return file_replace_list(store_fd(st), note, open, 0644, err);
}

int store_tighten(struct store *st, const char *path, struct mlr_error *err)
{
	auto_call(seen_done) struct seen seen = { .owner = geteuid() };
	auto_free char *tree = xasprintf("%s/tree", path), *listing = xasprintf("%s/listing", path);
	int fd = store_fd(st), r = tighten_find(fd, tree, see, &seen, err);

	if (r == 0)
		r = note_open(st, path, &seen.open, err);
	if (r < 0 || seen.n == 0)
		return r == -ENOENT ? 0 : r;
	/* The listing contains the old modes; without it nothing is checked. */
	if (store_is_tight(st) == 0 && unlinkat(fd, listing, 0) < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "remove '%s/%s'", store_path(st), listing);
	if (seen.foreign)
		mlr_warning(
			"'%s/%s/%s' belongs to user %ld, who could write there: mlrun store verify --repair",
			store_path(st), tree, seen.foreign, (long)seen.uid);
	return tighten_tree(fd, tree, NULL, NULL, err) < 0
		? mlr_wrap(err, "'%s/%s'", store_path(st), tree)
		: 0;
}

static int each(struct store *st, const char *dir, size_t rest,
	int (*fn)(struct store *st, const char *path, struct mlr_error *err), struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), dir, 0);
	int r = 0;

	if (!d && errno == ENOENT) /* an older format lacks this part */
		return 0;
	if (!d)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(st), dir);
	for (struct dirent *e; r == 0 && (e = file_next(d));) {
		auto_free char *path = xasprintf("%s/%s", dir, e->d_name);

		if (strspn(e->d_name, "0123456789abcdef") == 64 && strlen(e->d_name) == 64 + rest)
			r = fn(st, path, err);
	}
	return r;
}

/* Damaged facts are left to store verify. */
static int renew_facts(struct store *st, const char *path, struct mlr_error *err)
{
	auto_free char *manifest = xasprintf("sha256:%.64s", strchr(path, '/') + 1);

	if (store_facts_renew(st, manifest, NULL) < 0)
		mlr_debug("store: '%s' stays as it is", path);
	return 0;
}

int store_tighten_all(struct store *st, struct mlr_error *err)
{
	static const char *const kinds[] = { "layers", "cover", "dir" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(kinds); i++)
		r = each(st, kinds[i], 0, store_tighten, err);
	return r < 0 ? r : each(st, "facts", strlen(".json"), renew_facts, err);
}

int store_is_tight(const struct store *st)
{
	return st->format >= STORE_FORMAT;
}

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define OTHERS_ENTER (S_IXGRP | S_IXOTH)

/* leases/ is missing: others may write there, and store/lease.h judges what they leave. */
static const char *const parts[] = { "layers", "facts", "images", "blobs", "blobs/sha256", "cover",
	"dir", "squash", "holds", "tmp", "unsynced", "cache", "services", "volumes", "workers",
	"elastic" };

/* Root of a user namespace is the user that made it, not real root. */
static int is_real_root(void)
{
	auto_free char *map = NULL;

	return geteuid() == 0 &&
		(file_read(AT_FDCWD, "/proc/self/uid_map", 256, &map, NULL, NULL) < 0 ||
			strtoull(map + strspn(map, " 0"), NULL, 10) == 4294967295u);
}

int store_refuse_user(const struct store *st, uid_t uid, const char *why, struct mlr_error *err)
{
	auto_call(account_done) struct account account = { 0 };
	auto_free char *owner = NULL;

	account_find_user(uid, &account);
	owner = account.user ? xstrdup(account.user)
			     : xasprintf("#%ld", (long)uid); /* as sudo spells it */
	mlr_fail(err, EACCES, "store '%s' belongs to user %s, %s", st->path, owner, why);
	mlr_hint(err, "sudo -u '%s' mlrun does so; or choose another with --store or MLRUN_STORE",
		owner);
	return -EACCES;
}

static int refuse_open(const struct store *st, const struct stat *top, const struct strv *open,
	struct mlr_error *err)
{
	auto_free char *paths = strv_join(open, open->n, " ");
	const char *how = top->st_mode & OTHERS_WRITE ? "" : "-R "; /* leases/ lies below the top */

	if (top->st_uid == geteuid()) {
		mlr_fail(err, EACCES, "others may write to store '%s'", st->path);
		return mlr_hint(err, "chmod %sgo-w %s", how, paths);
	}
	mlr_fail(err, EACCES, "store '%s' belongs to user %ld and others may write to it", st->path,
		(long)top->st_uid);
	return mlr_hint(err,
		"its owner can chmod %sgo-w %s; or choose another with --store or MLRUN_STORE", how,
		paths);
}

/* Close containers/ to others; warn if that fails, e.g. on a read-only file system. */
static void close_containers(const struct store *st)
{
	struct stat sb;

	if (fstatat(st->fd, "containers", &sb, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(sb.st_mode) ||
		!(sb.st_mode & 077) || sb.st_uid != geteuid())
		return;
	if (fchmodat(st->fd, "containers", 0700, 0) < 0)
		mlr_debug("store: close '%s/containers': %s", st->path, strerror(errno));
}

int store_guard(struct store *st, const struct stat *top, struct mlr_error *err)
{
	auto_strv struct strv open = STRV_INIT;
	struct stat sb;

	if (top->st_uid != geteuid() && is_real_root())
		return store_refuse_user(
			st, top->st_uid, "and root runs no image of another user's", err);
	st->owner = top->st_uid;
	st->others_enter = (top->st_mode & (OTHERS_ENTER | OTHERS_WRITE)) != 0;
	if (top->st_mode & OTHERS_WRITE)
		strv_addf(&open, "'%s'", st->path);
	if (st->others_enter) {
		for (size_t i = 0; i < ARRAY_LEN(parts) && !(top->st_mode & OTHERS_WRITE); i++)
			if (fstatat(st->fd, parts[i], &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
				(sb.st_mode & OTHERS_WRITE))
				strv_addf(&open, "'%s/%s'", st->path, parts[i]);
		if (top->st_uid == geteuid())
			close_containers(st);
	}
	return open.n ? refuse_open(st, top, &open, err) : 0;
}

int store_guard_file(
	const struct store *st, const char *path, const struct stat *sb, struct mlr_error *err)
{
	if (!st->others_enter ||
		(!(sb->st_mode & OTHERS_WRITE) && (sb->st_uid == st->owner || sb->st_uid == 0)))
		return 0;
	if (!(sb->st_mode & OTHERS_WRITE))
		return mlr_fail(
			err, EACCES, "'%s/%s' is user %ld's", st->path, path, (long)sb->st_uid);
	mlr_fail(err, EACCES, "others may write to '%s/%s'", st->path, path);
	return mlr_hint(err, "chmod -R go-w '%s/%.*s'", st->path, (int)strcspn(path, "/"), path);
}

int store_guard_close(struct store *st, struct mlr_error *err)
{
	struct stat sb;

	for (size_t i = 0; i <= ARRAY_LEN(parts); i++) {
		const char *part = i ? parts[i - 1] : ".";

		if (fstatat(st->fd, part, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			(sb.st_mode & OTHERS_WRITE) &&
			fchmodat(st->fd, part, sb.st_mode & 07777 & ~OTHERS_WRITE, 0) < 0)
			return mlr_fail_errno(err, "close '%s/%s' to other users", st->path, part);
	}
	close_containers(st);
	return 0;
}
