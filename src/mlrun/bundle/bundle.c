#include "bundle/bundle.h"

#include "bundle/parts.h"
#include "runtime/masks.h"

/* Writes go to the bundle's files, unless they are another user's: then they stay in memory. */
static int plan_root(const struct bundle *b, const char *dir, struct plan *p, struct mlr_error *err)
{
	auto_free char *whole =
		*b->root == '/' ? xstrdup(b->root) : xasprintf("%s/%s", dir, b->root);
	auto_free char *real = realpath(whole, NULL);
	struct stat st;

	if (!real || stat(real, &st) < 0)
		return mlr_fail_errno(err, "the root '%s'", whole);
	if (!S_ISDIR(st.st_mode))
		return mlr_fail(err, ENOTDIR, "the root '%s' is not a directory", whole);
	if (strcmp(real, "/") == 0)
		return mlr_fail(err, EINVAL, "the root '%s' is the host's", whole);
	strv_add(&p->lowers, real);
	p->root = b->is_readonly          ? PLAN_ROOT_READ_ONLY
		: access(real, W_OK) == 0 ? PLAN_ROOT_ITSELF
					  : PLAN_ROOT_MEMORY;
	return 0;
}

/* Is the namespace the caller's own? */
static int is_callers(const char *type, const char *path)
{
	const char *file = strcmp(type, "network") == 0 ? "net"
		: strcmp(type, "mount") == 0            ? "mnt"
							: type;
	auto_free char *own = xasprintf("/proc/self/ns/%s", file);
	struct stat a, b;

	return stat(own, &a) == 0 && stat(path, &b) == 0 && file_is_one(&a, &b);
}

/* Has the container a namespace of this type that is not the caller's? */
static int has_namespace(const struct bundle *b, const char *type)
{
	for (size_t i = 0; i < b->n_namespaces; i++) {
		const char *path = b->namespaces[i].path;

		if (strcmp(b->namespaces[i].type, type) == 0)
			return !path || !*path || !is_callers(type, path);
	}
	return 0;
}

/* The namespace that a setting is of; NULL: it is the machine's. */
static const char *namespace_of(const char *key)
{
	static const struct {
		const char *name; /* ends with '.': all that begin so */
		const char *type;
	} known[] = { { "net.", "network" }, { "fs.mqueue.", "ipc" }, { "kernel.msgmax", "ipc" },
		{ "kernel.msgmnb", "ipc" }, { "kernel.msgmni", "ipc" }, { "kernel.sem", "ipc" },
		{ "kernel.shmall", "ipc" }, { "kernel.shmmax", "ipc" }, { "kernel.shmmni", "ipc" },
		{ "kernel.shm_rmid_forced", "ipc" } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t n = strlen(known[i].name);

		if (strncmp(key, known[i].name, n) == 0 && (known[i].name[n - 1] == '.' || !key[n]))
			return known[i].type;
	}
	return NULL;
}

static int plan_sysctls(struct bundle *b, struct mlr_error *err)
{
	for (size_t i = 0; i + 1 < b->settings.n; i += 2) {
		const char *key = b->settings.v[i], *type = namespace_of(key);

		if (!type || !has_namespace(b, type))
			return mlr_fail(err, ENOTSUP,
				"'sysctl': '%s' is not a setting of a namespace that the container has "
				"of its own",
				key);
		strv_add_words(&b->sysctls, key, b->settings.v[i + 1],
			strv_has(&b->joined, type) ? "joined" : "");
	}
	return 0;
}

/* bits 0: every container has it, or the host's is used */
static const struct {
	const char *type;
	unsigned bits;
} namespaces[] = {
	{ "user", 0 },
	{ "mount", 0 },
	{ "cgroup", 0 },
	{ "pid", PLAN_NS_PID },
	{ "network", PLAN_NS_NET },
	{ "ipc", PLAN_NS_IPC },
	{ "uts", PLAN_NS_UTS },
};

/* Enter a namespace with a path, where the kernel lets the caller, unless he is in it. */
static int join_namespace(const char *type, const char *path, unsigned bits, struct bundle *b,
	struct plan *p, struct mlr_error *err)
{
	if (is_callers(type, path))
		return 0;
	p->in_user_namespace |= strcmp(type, "user") == 0;
	if (!(bits & (PLAN_NS_NET | PLAN_NS_IPC | PLAN_NS_UTS)) && strcmp(type, "user") != 0)
		return mlr_fail(
			err, ENOTSUP, "%s: an existing one, '%s', cannot be joined", type, path);
	strv_add_words(&b->joined, type, path);
	return 0;
}

static int plan_namespace(
	const struct bundle_namespace *ns, struct bundle *b, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		if (strcmp(namespaces[i].type, ns->type) != 0)
			continue;
		if (ns->path && *ns->path)
			return join_namespace(ns->type, ns->path, namespaces[i].bits, b, p, err);
		p->namespaces |= namespaces[i].bits;
		return 0;
	}
	return mlr_fail(err, ENOTSUP, "'%s' is not supported", ns->type);
}

static int plan_namespaces(struct bundle *b, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < b->n_namespaces; i++)
		if (plan_namespace(&b->namespaces[i], b, p, err) < 0)
			return mlr_wrap(err, "'namespaces'");
	/* A namespace that is joined has a name. */
	if (b->domainname && *b->domainname && !(p->namespaces & PLAN_NS_UTS))
		return mlr_fail(err, EINVAL,
			"'domainname' needs a namespace of its own, of the type 'uts'");
	if (!b->hostname || !*b->hostname || strv_has(&b->joined, "uts"))
		return 0;
	if (!(p->namespaces & PLAN_NS_UTS))
		return mlr_fail(err, EINVAL, "'hostname' needs a namespace of the type 'uts'");
	if (strlen(b->hostname) > 64)
		return mlr_fail(err, EINVAL, "'hostname' is longer than 64 bytes");
	p->hostname = xstrdup(b->hostname);
	return 0;
}

int bundle_plan(struct bundle *b, const char *dir, struct plan *p, struct mlr_error *err)
{
	p->image = xstrdup(dir);
	b->has_other_ids = b->n_uids > 1 || (b->n_uids && b->uids->outside != geteuid());
	TRY(process_plan(b, p, err));
	TRY(plan_root(b, dir, p, err));
	TRY(plan_namespaces(b, p, err));
	TRY(plan_sysctls(b, err));
	TRY(resources_plan(b->resources, p, err));
	TRY(mounts_plan(b, dir, p, err));
	if (plan_mount_at(p, "/proc"))
		TRY(masks_plan(p, err));
	TRY(mounts_devices(b, p, err));
	TRY(paths_seal(&b->sealed, p, err));
	return paths_mask(&b->masked, p, err);
}
