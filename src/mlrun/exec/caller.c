#include "exec/parts.h"

#include "exec/users_mounts.h"
#include "rootfs/lookup.h"

#include "base/account.h"
#include "base/home.h"

/* Directories that an image has itself, which the host's would hide. */
static const char *const system_prefixes[] = { "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32",
	"/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/cache",
	"/var/lib", "/var/log", "/var/run" };

/* A field of passwd(5) cannot contain the separator or a newline. */
static char *field(const char *s, const char *instead)
{
	return xstrdup(s && *s && !strpbrk(s, ":\n") ? s : instead);
}

char *caller_home(void)
{
	auto_free char *home = home_dir(NULL);

	return home ? path_clean(home) : NULL;
}

void caller_identity(struct plan *p, int fakeroot)
{
	auto_call(account_done) struct account account = { 0 };
	auto_free char *home = caller_home();

	p->id.host_uid = geteuid();
	p->id.host_gid = getegid();
	p->id.uid = fakeroot ? 0 : p->id.host_uid;
	p->id.gid = fakeroot ? 0 : p->id.host_gid;
	p->id.is_fake_root = fakeroot;
	account_find(p->id.host_uid, p->id.host_gid, &account);
	p->id.name = fakeroot ? xstrdup("root") : field(account.user, "user");
	p->id.home = p->id.uid == 0 ? xstrdup("/root") : field(home, "/");
	p->id.shell = xstrdup("/bin/sh"); /* every image with a shell has this one */
	p->id.group = fakeroot ? xstrdup("root") : field(account.group, p->id.name);
}

int caller_is_system_path(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(system_prefixes); i++)
		if (path_below(path, system_prefixes[i]))
			return 1;
	return 0;
}

static enum caller_place place_of(const char *cwd, const char *home)
{
	auto_free char *real = home ? realpath(home, NULL) : NULL;

	if (!home)
		return CALLER_ELSEWHERE;
	if (strcmp(cwd, home) == 0 || (real && strcmp(cwd, real) == 0))
		return CALLER_AT_HOME;
	if (path_below(home, cwd) || (real && path_below(real, cwd)))
		return CALLER_ABOVE_HOME;
	return CALLER_ELSEWHERE;
}

char *caller_workdir(const char *home, enum caller_place *place)
{
	auto_free char *cwd = getcwd(NULL, 0);

	*place = CALLER_ELSEWHERE;
	if (!cwd || cwd[0] != '/' || strcmp(cwd, "/") == 0)
		return NULL;
	*place = place_of(cwd, home);
	if (*place == CALLER_ELSEWHERE && caller_is_system_path(cwd))
		return NULL;
	return take_ptr(&cwd);
}

const char *caller_workdir_link(const char *cwd)
{
	const char *name = getenv("PWD");
	auto_free char *clean = name && *name == '/' ? path_clean(name) : NULL;
	struct stat there, here;

	return clean && strcmp(clean, name) == 0 && strcmp(name, cwd) != 0 &&
			!caller_is_system_path(name) && stat(name, &there) == 0 &&
			stat(".", &here) == 0 && there.st_dev == here.st_dev &&
			there.st_ino == here.st_ino
		? name
		: NULL;
}

/* Can an empty directory be mounted here without hiding what the container needs, and without
 * creating it on the host? */
static int home_fits(const struct plan *p, const char *home)
{
	struct stat st;

	if (strcmp(home, "/") == 0 || caller_is_system_path(home))
		return 0;
	for (size_t i = 0; i < p->n_mounts; i++) {
		const char *target = p->mounts[i].target;

		if (path_below(target, home))
			return 0;
		if (path_below(home, target) && (stat(home, &st) < 0 || !S_ISDIR(st.st_mode)))
			return 0;
	}
	return 1;
}

/* Mount another directory as the home directory. */
static int plan_home_place(const char *place, struct plan *p, struct mlr_error *err)
{
	const char *target = strchr(place, ':');
	auto_free char *source = xstrndup(place, strcspn(place, ":"));

	if (volume_add(PLAN_BIND, source, target ? target + 1 : NULL, 0, p, err) < 0)
		return mlr_wrap(err, "--home '%s'", place);
	free(p->id.home);
	p->id.home = xstrdup(p->mounts[p->n_mounts - 1].target);
	return 0;
}

int caller_plan_home(const struct exec_options *o, const char *home, int image_home, struct plan *p,
	struct mlr_error *err)
{
	if (o->home_place)
		return plan_home_place(o->home_place, p, err);
	/* A setting for all nodes does not stop starts on one that lacks the directory. */
	if (o->home == EXEC_YES && o->home_origin && (!home || access(home, F_OK) < 0))
		strv_addf(&p->notes,
			"the home directory '%s' is not on this node: an empty one takes its place",
			home ? home : "");
	else if (o->home == EXEC_YES) {
		if (!home)
			return mlr_fail(err, ENOENT,
				"--home: neither HOME nor the user database names a home directory");
		/* Pyxis's root has it at /root. Its own path stays: scripts name it. */
		if (exec_dialect_of(o)->root_has_home && p->id.uid == 0 &&
			strcmp(home, p->id.home) != 0) {
			TRY(plan_mount_add(p, PLAN_BIND, home, p->id.home, 0, PLAN_FROM_USER, err));
		} else {
			free(p->id.home);
			p->id.home = xstrdup(home);
		}
		return plan_mount_add(p, PLAN_BIND, home, home, 0,
			o->home_origin ? o->home_origin : PLAN_FROM_USER, err);
	}
	if ((p->id.uid == 0 || image_home) && !o->read_only)
		return 0;
	if (!home_fits(p, p->id.home)) {
		free(p->id.home);
		p->id.home = xasprintf("/home/%s", p->id.name);
	}
	return plan_mount_add(p, PLAN_TMPFS, NULL, p->id.home, 0, PLAN_FROM_DEFAULT, err);
}

/* The caller's directory, mounted if necessary; NULL if the container must not have it. */
static int plan_caller_dir(const struct exec_options *o, const char *home, const struct plan *users,
	struct plan *p, char **ret, struct mlr_error *err)
{
	enum caller_place place;
	auto_free char *cwd =
		o->apart || exec_dialect_of(o)->no_caller_dir || exec_is_without(o, ".")
		? NULL
		: caller_workdir(home, &place);
	const char *link;

	if (!cwd)
		return 0;
	/* As after "sudo -u USER". */
	if (access(cwd, X_OK) < 0) {
		if (!o->workdir)
			strv_take(&p->notes,
				xasprintf(
					"you may not enter the working directory '%s', so the command starts "
					"in the image's; -w DIR starts it elsewhere",
					cwd));
		return 0;
	}
	if (place == CALLER_AT_HOME && o->home == EXEC_YES) {
		*ret = xstrdup(home);
		return 0;
	}
	if (plan_covers(users, cwd)) {
		*ret = take_ptr(&cwd);
		return 0;
	}
	if (!plan_covers(p, cwd)) {
		if (place != CALLER_ELSEWHERE) {
			if (o->home != EXEC_YES && !o->workdir)
				plan_remark_add(p, PLAN_FROM_DEFAULT,
					"the home directory is not in the container; "
					"--home brings it, -v DIR a part of it");
			return 0;
		}
		TRY(plan_mount_add(p, PLAN_BIND, cwd, cwd, 0, PLAN_FROM_DEFAULT, err));
	}
	/* Under both names: scripts use $PWD, programs what realpath(3) says. */
	link = caller_workdir_link(cwd);
	if (link && !plan_covers(users, link) && !plan_covers(p, link)) {
		TRY(plan_mount_add(p, PLAN_BIND, cwd, link, 0, PLAN_FROM_DEFAULT, err));
		*ret = xstrdup(link);
	} else
		*ret = take_ptr(&cwd);
	return 0;
}

/* A relative WorkingDir starts at "/", as in Docker. */
static char *image_workdir(const char *dir)
{
	auto_free char *absolute = xasprintf("/%s", dir);

	return path_clean(absolute);
}

static int has_workdir(const struct oci_config *c)
{
	return c->working_dir && *c->working_dir && strcmp(c->working_dir, "/") != 0;
}

/* Is this path in the container, by a mount or in the image? */
static int has_path(const struct plan *p, const char *path)
{
	const struct plan_mount *top = NULL;
	auto_free char *source = NULL;
	struct plan_seen seen = { 0 };
	int has;

	for (size_t i = 0; i < p->n_mounts; i++) {
		if (path_below(p->mounts[i].target, path)) /* made on the way to a mount */
			return 1;
		if (path_below(path, p->mounts[i].target) && plan_kind_covers(p->mounts[i].kind))
			top = &p->mounts[i];
	}
	if (top) {
		source = top->source ? xasprintf("%s%s", top->source, path + strlen(top->target))
				     : NULL;
		return source && access(source, F_OK) == 0;
	}
	rootfs_look(p, path, 1, &seen);
	has = seen.there != PLAN_THERE_NOTHING;
	plan_seen_done(&seen);
	return has;
}

void caller_keep_workdir(const struct exec_options *o, struct plan *p)
{
	if (exec_dialect_of(o)->workdir != WORKDIR_OR_HOME || has_path(p, p->workdir))
		return;
	plan_remark_add(p, PLAN_FROM_USER, "'%s' is not in the container", p->workdir);
	free(p->workdir);
	p->workdir =
		xstrdup(p->root != PLAN_ROOT_ITSELF || has_path(p, p->id.home) ? p->id.home : "/");
	p->workdir_origin = PLAN_FROM_DEFAULT;
}

int caller_plan_workdir(const struct exec_options *o, const struct oci_config *c, const char *home,
	const struct plan *users, struct plan *p, struct mlr_error *err)
{
	auto_free char *cwd = NULL;

	TRY(plan_caller_dir(o, home, users, p, &cwd, err));
	if (o->workdir && *o->workdir) {
		p->workdir = path_clean(o->workdir);
		p->workdir_origin = PLAN_FROM_USER;
		return 0;
	}
	if (o->workdir || (exec_dialect_of(o)->workdir == WORKDIR_IMAGES && has_workdir(c))) {
		free(cwd);
		cwd = NULL;
	}
	p->workdir_origin = cwd ? PLAN_FROM_CALLER : PLAN_FROM_IMAGE;
	if (cwd)
		p->workdir = take_ptr(&cwd);
	else if (exec_dialect_of(o)->workdir == WORKDIR_OR_HOME)
		p->workdir =
			exec_dialect_of(o)->no_caller_dir ? xstrdup(p->id.home) : getcwd(NULL, 0);
	else if (c->working_dir && *c->working_dir)
		p->workdir = image_workdir(c->working_dir);
	if (!p->workdir)
		p->workdir = xstrdup("/");
	return 0;
}
