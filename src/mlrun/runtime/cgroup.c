#include "runtime/limits.h"

#define PERIOD_US 100000 /* cpu.max's usual period */
#define NAME      "mlrun-"

static char *below(const char *root, const char *path)
{
	return xasprintf("%s%s", strcmp(root, "/") == 0 ? "" : root, path);
}

static char *read_text(const char *path)
{
	char *text = NULL;

	return file_read(AT_FDCWD, path, 1 << 16, &text, NULL, NULL) < 0 ? NULL : text;
}

/* Does a list of controllers, "cpu memory pids", have this one? */
static int has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *s = list; s && *s; s += strcspn(s, " \n"), s += strspn(s, " \n"))
		if (strcspn(s, " \n") == len && strncmp(s, word, len) == 0)
			return 1;
	return 0;
}

/* The first controller that the plan needs and a list lacks, to free(), or NULL. */
static char *lacks(const char *list, const struct plan *p)
{
	if (p->cpus && !has_word(list, "cpu"))
		return xstrdup("cpu");
	if (p->memory && !has_word(list, "memory"))
		return xstrdup("memory");
	for (size_t i = 0; i < p->cgroup.n; i += 2) {
		const char *file = p->cgroup.v[i];
		auto_free char *name = xstrndup(file, strcspn(file, "."));

		if (!has_word(list, name))
			return take_ptr(&name);
	}
	return NULL;
}

static int may_make_child(const char *dir)
{
	auto_free char *procs = xasprintf("%s/cgroup.procs", dir);

	/* Moving a process takes write access here, to the nearest ancestor of both groups. */
	return access(dir, W_OK) == 0 && access(procs, W_OK) == 0;
}

static int refuse(int code, const char *why, struct mlr_error *err)
{
	mlr_fail(err, code, "--cpus and --memory need a control group of your own, and %s", why);
	return mlr_hint(err,
		"the batch system limits a job: sbatch --mem=4G --cpus-per-task=2; with systemd: "
		"systemd-run --user --scope -p MemoryMax=4G -p CPUQuota=200%% mlrun exec ...; one "
		"process: --ulimit as=BYTES, taskset(1)");
}

/* A process's group in the unified hierarchy: the line "0::/path", cgroups(7). */
static char *group_of(const char *root, const char *pid)
{
	auto_free char *file = xasprintf("/proc/%s/cgroup", pid), *path = below(root, file);
	auto_free char *text = read_text(path);

	for (char *s = text; s && *s; s += strcspn(s, "\n"), s += *s == '\n')
		if (strncmp(s, "0::/", 4) == 0)
			return xstrndup(s + 3, strcspn(s + 3, "\n"));
	return NULL;
}

/* Find the mount point of the unified hierarchy, alone or beside version 1's; *known gets its
 * controllers. */
static char *find_top(const char *root, char **known)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		auto_free char *top = below(root, places[i]);
		auto_free char *all = xasprintf("%s/cgroup.controllers", top);

		*known = read_text(all);
		if (*known)
			return take_ptr(&top);
	}
	return NULL;
}

int cgroup_find(const char *root, const struct plan *p, char **ret, struct mlr_error *err)
{
	auto_free char *known = NULL, *top = find_top(root, &known);
	auto_free char *group = group_of(root, "self");
	auto_free char *missing = lacks(known, p);
	int handed = 0;

	if (!top || !group)
		return refuse(
			ENOTSUP, "this machine has no unified hierarchy of them (cgroup v2)", err);
	if (missing) {
		auto_free char *why = xasprintf(
			"this machine's unified hierarchy (cgroup v2) has no '%s' controller",
			missing);

		return refuse(ENOTSUP, why, err);
	}
	/* Start at the parent: a group that holds processes cannot delegate controllers. */
	for (char *slash; (slash = strrchr(group, '/')) != NULL;) {
		*slash = '\0';
		auto_free char *dir = xasprintf("%s%s", top, group);
		auto_free char *control = xasprintf("%s/cgroup.subtree_control", dir);
		auto_free char *list = read_text(control), *lacking = lacks(list, p);

		if (lacking)
			continue;
		handed = 1;
		if (!may_make_child(dir))
			continue;
		*ret = take_ptr(&dir);
		return 0;
	}
	return handed ? refuse(EACCES, "none is delegated to you", err)
		      : refuse(ENOTSUP, "none above this process hands the controllers down", err);
}

/* Remove groups whose first process has ended; the group's name holds its pid. Emptiness is not
 * enough, since a group that is being made is empty, too. rmdir(2) fails if processes remain. */
static void sweep(const char *parent)
{
	auto_dir DIR *dir = opendir(parent);

	for (struct dirent *e; (e = file_next(dir));) {
		long pid = strncmp(e->d_name, NAME, strlen(NAME)) == 0
			? atol(e->d_name + strlen(NAME))
			: 0;

		if (pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
	}
}

static int put(int dir, const char *name, const char *text, struct mlr_error *err)
{
	auto_close int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));

	return mlr_result(err, r, "write '%s' to %s", text, name);
}

static int set_limits(int dir, const struct plan *p, struct mlr_error *err)
{
	char text[64];
	int r = 0;

	if (p->cpus) {
		snprintf(text, sizeof(text), "%" PRIu64 " %d",
			(uint64_t)p->cpus * (PERIOD_US / 100), PERIOD_US);
		r = put(dir, "cpu.max", text, err);
	}
	if (r == 0 && p->memory) {
		snprintf(text, sizeof(text), "%" PRIu64, p->memory);
		r = put(dir, "memory.max", text, err);
	}
	for (size_t i = 0; r == 0 && i < p->cgroup.n; i += 2)
		r = put(dir, p->cgroup.v[i], p->cgroup.v[i + 1], err);
	return r;
}

/* Without limits a group can be a child of the caller's own, whose limits then hold as well; to
 * free(), or NULL. */
static char *find_own(const char *root)
{
	auto_free char *known = NULL, *top = find_top(root, &known),
		       *group = group_of(root, "self");
	auto_free char *dir = top && group ? xasprintf("%s%s", top, group) : NULL;

	return dir && may_make_child(dir) ? take_ptr(&dir) : NULL;
}

static int make_and_enter(const char *parent, const struct plan *p, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/" NAME "%d", parent, (int)getpid());
	auto_close int dir = -1;
	int r;

	sweep(parent);
	if (mkdir(path, 0755) < 0)
		return mlr_fail_errno(err, "make the control group '%s'", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = dir < 0 ? mlr_fail_errno(err, "open it") : set_limits(dir, p, err);
	if (r == 0)
		r = put(dir, "cgroup.procs", "0", err);
	if (r < 0) {
		rmdir(path);
		return mlr_wrap(err, "control group '%s'", path);
	}
	return 0;
}

int cgroup_enter(const char *root, const struct plan *p, struct mlr_error *err)
{
	auto_free char *parent = NULL;
	struct mlr_error why = MLR_ERROR_INIT;

	if (p->cpus || p->memory || p->cgroup.n) {
		TRY(cgroup_find(root, p, &parent, err));
		return make_and_enter(parent, p, err);
	}
	parent = p->has_cgroup ? find_own(root) : NULL;
	if (parent && make_and_enter(parent, p, &why) < 0)
		mlr_debug("%s", why.text);
	return 0;
}

/* Open a file of the group that cgroup_enter() made for a process. Returns -ENOENT if there is no
 * such group. */
static int open_in_group_of(pid_t pid, const char *name, int flags)
{
	auto_free char *known = NULL, *top = find_top("/", &known), *file = NULL;
	auto_free char *word = xasprintf("%d", (int)pid), *group = group_of("/", word);
	int fd;

	if (!top || !group || strncmp(strrchr(group, '/') + 1, NAME, strlen(NAME)) != 0)
		return -ENOENT;
	file = xasprintf("%s%s/%s", top, group, name);
	fd = open(file, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_join(pid_t pid)
{
	auto_close int fd = open_in_group_of(pid, "cgroup.procs", O_WRONLY);

	return fd == -ENOENT ? 0 : fd < 0 ? fd : file_write_all(fd, "0", 1);
}

int cgroup_freeze(pid_t pid, int freeze)
{
	auto_close int fd = open_in_group_of(pid, "cgroup.freeze", O_WRONLY);

	return fd < 0 ? fd : file_write_all(fd, freeze ? "1" : "0", 1);
}

int cgroup_is_frozen(pid_t pid)
{
	auto_close int fd = open_in_group_of(pid, "cgroup.events", O_RDONLY);
	char text[256] = "";

	return fd >= 0 && file_read_full(fd, text, sizeof(text) - 1) > 0 &&
		strstr(text, "frozen 1") != NULL;
}
