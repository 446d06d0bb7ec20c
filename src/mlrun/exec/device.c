#include "exec/users_mounts.h"

#include "base/account.h"
#include "cdi/cdi.h"

#include <sys/statvfs.h>

/* Fail, naming the owner and the group that may open it. */
static int not_allowed(const char *path, const struct stat *st, struct mlr_error *err)
{
	auto_call(account_done) struct account whose = { 0 };
	auto_free char *uid = xasprintf("%u", (unsigned)st->st_uid);
	auto_free char *gid = xasprintf("%u", (unsigned)st->st_gid);
	const char *group;

	account_find(st->st_uid, st->st_gid, &whose);
	group = whose.group ? whose.group : gid;
	mlr_fail(err, EACCES,
		"you may not open '%s': it belongs to user %s and group %s, mode %04o", path,
		whose.user ? whose.user : uid, group, (unsigned)st->st_mode & 07777);
	if ((st->st_mode & 0060) && st->st_gid != 0)
		return mlr_hint(err,
			"an administrator can put you into the group: usermod -aG %s NAME", group);
	return mlr_hint(err, "an administrator can open it to you by a rule of udev(7)");
}

/* Other directories hold files, whose owner a device's flags would say nothing of. */
static int check_directory(const char *path, struct mlr_error *err)
{
	auto_free char *real = realpath(path, NULL);

	if (real && strncmp(real, "/dev/", 5) == 0)
		return 0;
	mlr_fail(err, ENODEV, "'%s' is not a directory of devices below /dev", path);
	return mlr_hint(err, "-v mounts files and directories");
}

static int check_node(const char *path, struct mlr_error *err)
{
	struct statvfs fs;
	struct stat st;

	if (stat(path, &st) < 0) {
		int r = mlr_fail_errno(err, "'%s'", path);

		if (err->code == ENOENT)
			mlr_hint(err, "`ls /dev` lists this machine's devices");
		return r;
	}
	if (S_ISDIR(st.st_mode))
		return check_directory(path, err);
	if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) {
		mlr_fail(err, ENODEV, "'%s' is not a device", path);
		return mlr_hint(err, "-v mounts files and directories");
	}
	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NODEV))
		return mlr_fail(err, ENODEV,
			"'%s' lies in a file system that is mounted with nodev: devices do not work "
			"there",
			path);
	if (access(path, R_OK) < 0 && access(path, W_OK) < 0)
		return not_allowed(path, &st, err);
	return 0;
}

static int check_access(const char *perms, struct mlr_error *err)
{
	if (!*perms || perms[strspn(perms, "rwm")] || strlen(perms) > 3)
		return mlr_fail(err, EINVAL, "invalid access '%s': use r, w and m", perms);
	if (!strchr(perms, 'r') || !strchr(perms, 'w'))
		return mlr_fail(err, ENOTSUP,
			"'%s' cannot be had: the node's own mode says who may read and write it",
			perms);
	return 0;
}

/* The colon after the source, or NULL. udev(7) uses colons in names, "pci-0000:18:00.0-card" in
 * /dev/dri/by-path: the longest existing name counts. */
static const char *source_end(const char *text)
{
	auto_free char *source = xstrdup(text);

	while (access(source, F_OK) < 0) {
		char *colon = strrchr(source, ':');

		if (!colon)
			return strchr(text, ':');
		*colon = '\0';
	}
	return text[strlen(source)] ? text + strlen(source) : NULL;
}

static int add(const char *text, struct plan *p, struct mlr_error *err)
{
	const char *c1 = source_end(text), *c2 = c1 ? strchr(c1 + 1, ':') : NULL;
	auto_free char *source = c1 ? xstrndup(text, (size_t)(c1 - text)) : xstrdup(text);
	auto_free char *target = NULL;

	if (cdi_is_name(text))
		return 0;
	if (source[0] != '/') {
		mlr_fail(err, EINVAL,
			"expected a device's absolute path, /dev/..., or VENDOR/CLASS=NAME");
		return mlr_hint(err, "mlrun gpu cdi --list prints the names that this machine has");
	}
	/* "/dev/x:rwm" means "/dev/x:/dev/x:rwm", as in docker-run(1). */
	if (c1 && !c2 && c1[1] != '/')
		c2 = c1;
	else if (c1)
		target = c2 ? xstrndup(c1 + 1, (size_t)(c2 - c1 - 1)) : xstrdup(c1 + 1);
	if (c2)
		TRY(check_access(c2 + 1, err));
	TRY(check_node(source, err));
	return plan_mount_add(
		p, PLAN_BIND, source, target ? target : source, 0, PLAN_FROM_USER, err);
}

void device_cdi_names(const struct strv *texts, struct strv *ret)
{
	for (size_t i = 0; i < texts->n; i++)
		if (cdi_is_name(texts->v[i]) && !strv_has(ret, texts->v[i]))
			strv_add(ret, texts->v[i]);
}

int device_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	return add(text, p, err) < 0 ? mlr_wrap(err, "--device '%s'", text) : 0;
}
