#include "bundle/parts.h"

#include <sys/sysmacros.h>

/* Options of one type, which its file system reads: tmpfs(5), overlayfs. Those that end with '='
 * have a value. */
static const struct data {
	const char *type, *word;
} data[] = { { "tmpfs", "size=" }, { "tmpfs", "mode=" }, { "tmpfs", "nr_inodes=" },
	{ "tmpfs", "nr_blocks=" }, { "tmpfs", "huge=" }, { "overlay", "lowerdir=/" },
	{ "overlay", "upperdir=/" }, { "overlay", "workdir=/" }, { "overlay", "volatile" },
	{ "overlay", "xino=" }, { "overlay", "index=" } };

struct wish {
	unsigned flags;
	int is_bind, copies_up;
	char *data;
};

static void wish_done(struct wish *w)
{
	free(w->data);
}

static int is_data(const char *type, const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(data); i++)
		if (strcmp(type, data[i].type) == 0 &&
			strncmp(word, data[i].word, strlen(data[i].word)) == 0)
			return 1;
	return 0;
}

static int read_option(const char *type, const char *word, struct wish *w, struct mlr_error *err)
{
	if (strcmp(word, "bind") == 0 || strcmp(word, "rbind") == 0)
		w->is_bind = 1;
	if (plan_mount_option(word, &w->flags))
		return 0;
	if (strcmp(type, "tmpfs") == 0 && strcmp(word, "tmpcopyup") == 0) {
		w->copies_up = 1;
		return 0;
	}
	if (is_data(type, word)) {
		char *both = w->data ? xasprintf("%s,%s", w->data, word) : xstrdup(word);

		set_ptr(&w->data, both);
		return 0;
	}
	/* The only id is the owner already; devpts and mqueue need no more; no label changes. */
	if (strncmp(word, "uid=", 4) == 0 || strncmp(word, "gid=", 4) == 0 ||
		strcmp(type, "devpts") == 0 || strcmp(word, "newinstance") == 0 ||
		strcmp(word, "userxattr") == 0 || strcasecmp(word, "z") == 0 || !*word)
		return 0;
	return mlr_fail(err, ENOTSUP, "the option '%s' is not supported", word);
}

static int add_bind(const char *source, const char *target, const struct wish *w, const char *dir,
	struct plan *p, struct mlr_error *err)
{
	auto_free char *path = *source == '/' ? xstrdup(source) : xasprintf("%s/%s", dir, source);

	return plan_mount_add(p, PLAN_BIND, path, target, w->flags, PLAN_FROM_CONFIG, err);
}

/* The root's directory at target, if anything is in it; to free(). */
static char *directory_in_root(const struct plan *p, const char *target)
{
	auto_close int root = open(p->lowers.v[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int dir =
		root < 0 ? -1 : file_open_in_root(root, target, O_PATH | O_DIRECTORY, 0);
	auto_strv struct strv names = STRV_INIT;

	if (dir < 0 || file_list(dir, ".", 0, &names) < 0 || names.n == 0)
		return NULL;
	return file_fd_path(dir);
}

/* An overlay as an ordinary user can have it, which keeps its attributes as the user's. */
static int add_overlay(const char *target, const struct strv *options, struct wish *w,
	struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < options->n; i++) {
		const char *lower = options->v[i] + strlen("lowerdir=");
		auto_free char *first = NULL;

		if (strncmp(options->v[i], "lowerdir=", strlen("lowerdir=")) != 0)
			continue;
		first = xstrndup(lower, strcspn(lower, ":"));
		TRY(plan_mount_add(
			p, PLAN_OVERLAY, first, target, w->flags, PLAN_FROM_CONFIG, err));
		p->mounts[p->n_mounts - 1].options = take_ptr(&w->data);
		return 0;
	}
	return mlr_fail(err, EPROTO, "the option 'lowerdir' is missing");
}

static int add_tmpfs(const char *target, const char *source, struct wish *w, struct plan *p,
	struct mlr_error *err)
{
	auto_free char *below = w->copies_up ? directory_in_root(p, target) : NULL;
	int r;

	/* Files that would be copied are only shown; writes go to memory all the same. */
	if (below)
		return plan_mount_add(
			p, PLAN_OVERLAY, below, target, w->flags, PLAN_FROM_CONFIG, err);
	r = plan_mount_add(p, PLAN_TMPFS, source, target, w->flags, PLAN_FROM_CONFIG, err);

	if (r == 0)
		p->mounts[p->n_mounts - 1].options =
			w->data ? take_ptr(&w->data) : xstrdup("mode=1777");
	return r;
}

/* File systems that the kernel makes for the container's own namespace, or else shows of the host.
 */
static const struct kernels {
	const char *type, *host;
	enum plan_kind kind;
	unsigned needs; /* enum plan_namespace */
	unsigned flags; /* of the host's */
} kernels[] = {
	{ "proc", "/proc", PLAN_PROC, PLAN_NS_PID, 0 },
	{ "sysfs", "/sys", PLAN_SYSFS, PLAN_NS_NET, 0 },
	{ "mqueue", "/dev/mqueue", PLAN_MQUEUE, PLAN_NS_IPC, PLAN_OPTIONAL },
	{ "devpts", NULL, PLAN_DEVPTS, 0, 0 },
	{ "cgroup", "/sys/fs/cgroup", PLAN_BIND, 0, PLAN_OPTIONAL | PLAN_READONLY },
	{ "cgroup2", "/sys/fs/cgroup", PLAN_BIND, 0, PLAN_OPTIONAL | PLAN_READONLY },
};

static int add_kernels(const struct kernels *k, const char *target, unsigned flags, struct plan *p,
	struct mlr_error *err)
{
	if (k->kind != PLAN_BIND && (p->namespaces & k->needs) == k->needs)
		return plan_mount_add(p, k->kind, NULL, target, flags, PLAN_FROM_CONFIG, err);
	return plan_mount_add(
		p, PLAN_BIND, k->host, target, flags | k->flags, PLAN_FROM_CONFIG, err);
}

static int add_type(const char *type, const struct bundle_mount *m, const char *target,
	struct wish *w, struct plan *p, struct mlr_error *err)
{
	if (strcmp(type, "tmpfs") == 0)
		return add_tmpfs(target, m->source, w, p, err);
	if (strcmp(type, "overlay") == 0)
		return add_overlay(target, &m->options, w, p, err);
	for (size_t i = 0; i < ARRAY_LEN(kernels); i++)
		if (strcmp(kernels[i].type, type) == 0)
			return add_kernels(&kernels[i], target, w->flags, p, err);
	return mlr_fail(err, ENOTSUP, "an ordinary user may not mount the type '%s'", type);
}

static int add_mount(const struct bundle_mount *m, const char *target, const char *dir,
	struct plan *p, struct mlr_error *err)
{
	auto_call(wish_done) struct wish w = { 0 };
	const char *type = m->type ? m->type : "";

	if (json_array_size(m->uids) > 0 || json_array_size(m->gids) > 0)
		return mlr_fail(err, ENOTSUP, "an ordinary user may not map ids");
	for (size_t i = 0; i < m->options.n; i++)
		TRY(read_option(type, m->options.v[i], &w, err));
	if (!w.is_bind && strcmp(type, "bind") != 0)
		return add_type(type, m, target, &w, p, err);
	if (!m->source || !*m->source)
		return mlr_fail(err, EPROTO, "'source' is missing");
	return add_bind(m->source, target, &w, dir, p, err);
}

/* --- /dev ------------------------------------------------------------------- */

/* The devices and links of config-linux.md, "Default Devices", and of runtime-linux.md. */
static const struct {
	enum plan_kind kind;
	const char *source, *target;
	unsigned flags;
} defaults[] = {
	{ PLAN_BIND, "/dev/null", "/dev/null", 0 },
	{ PLAN_BIND, "/dev/zero", "/dev/zero", 0 },
	{ PLAN_BIND, "/dev/full", "/dev/full", PLAN_OPTIONAL },
	{ PLAN_BIND, "/dev/random", "/dev/random", 0 },
	{ PLAN_BIND, "/dev/urandom", "/dev/urandom", 0 },
	{ PLAN_BIND, "/dev/tty", "/dev/tty", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "pts/ptmx", "/dev/ptmx", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "/proc/self/fd", "/dev/fd", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "/proc/self/fd/0", "/dev/stdin", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "/proc/self/fd/1", "/dev/stdout", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "/proc/self/fd/2", "/dev/stderr", PLAN_OPTIONAL },
};

/* Is /dev the host's or another directory that came whole? */
static int has_whole_dev(const struct plan *p)
{
	const struct plan_mount *dev = plan_mount_at(p, "/dev");

	return dev && dev->kind == PLAN_BIND;
}

static int add_defaults(struct plan *p, struct mlr_error *err)
{
	int r = 0;

	if (has_whole_dev(p))
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(defaults); i++)
		if (!plan_mount_at(p, defaults[i].target))
			r = plan_mount_add(p, defaults[i].kind, defaults[i].source,
				defaults[i].target, defaults[i].flags, PLAN_FROM_DEFAULT, err);
	return r;
}

int mounts_plan(const struct bundle *b, const char *dir, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < b->n_mounts; i++) {
		const char *target = b->mounts[i].target;
		auto_free char *absolute = xasprintf("%s%s", *target == '/' ? "" : "/", target);

		if (add_mount(&b->mounts[i], absolute, dir, p, err) < 0)
			return mlr_wrap(err, "'mounts': '%s'", target);
	}
	return add_defaults(p, err) < 0 ? mlr_wrap(err, "'mounts'") : 0;
}

/* A user may not make nodes: the host's node must be the same device. */
static int add_device(const struct bundle_device *d, struct plan *p, struct mlr_error *err)
{
	struct stat st;

	if (stat(d->path, &st) < 0)
		return mlr_fail_errno(err, "'%s'", d->path);
	if (S_ISFIFO(st.st_mode) ? !d->type || strcmp(d->type, "p") != 0
				 : st.st_rdev != makedev((unsigned)d->major, (unsigned)d->minor))
		return mlr_fail(err, ENOTSUP,
			"'%s' is another device on the host, and an ordinary user may not make one",
			d->path);
	if (plan_mount_at(p, d->path))
		return 0;
	return plan_mount_add(p, PLAN_BIND, d->path, d->path, 0, PLAN_FROM_CONFIG, err);
}

int mounts_devices(const struct bundle *b, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < b->n_devices && !has_whole_dev(p); i++)
		if (add_device(&b->devices[i], p, err) < 0)
			return mlr_wrap(err, "'devices'");
	return 0;
}
