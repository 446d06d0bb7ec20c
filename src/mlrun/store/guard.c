#include "store/guard.h"

#include "base/base.h"
#include "base/account.h"
#include "store/handle.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define OTHERS_ENTER (S_IXGRP | S_IXOTH)

/* leases/ is missing: others may write there, and store/lease.h judges what they leave. */
static const char *const parts[] = { "layers", "facts", "images", "blobs", "blobs/sha256", "cover",
	"dir", "squash", "holds", "tmp", "unsynced", "cache", "services", "workers", "elastic" };

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
	auto_call(account_done) struct account account = ACCOUNT_INIT;
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
