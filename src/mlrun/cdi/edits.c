#include "cdi/edits.h"

#include "cdi/hook.h"
#include "gpu/node.h"

#include <grp.h>
#include <sys/sysmacros.h>

int cdi_is_planned(
	const struct plan *p, enum plan_kind kind, const char *source, const char *target)
{
	for (size_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];

		if (m->kind == kind && m->origin == PLAN_FROM_CDI &&
			strcmp(m->target, target) == 0 &&
			(!source || (m->source && strcmp(m->source, source) == 0)))
			return 1;
	}
	return 0;
}

int cdi_edits_check(const struct cdi_edits *e, struct mlr_error *err)
{
	if (e->net_devices.n)
		return mlr_fail(err, ENOTSUP,
			"only root can move the network device '%s' into a container",
			e->net_devices.v[0]);
	if (e->has_rdt)
		return mlr_fail(
			err, ENOTSUP, "only root can set intelRdt, shares of caches and memory");
	for (size_t i = 0; i < e->n_hooks; i++)
		TRY(cdi_hook_check(&e->hooks[i], err));
	return 0;
}

static void set_variable(struct cdi_job *job, const char *text)
{
	const char *value = strchr(text, '=') + 1;
	auto_free char *key = xstrndup(text, (size_t)(value - 1 - text));
	enum plan_origin origin = plan_env_origin(job->p, key);
	const char *now = plan_env_get(job->p, key);

	if (now && strcmp(now, value) == 0 && origin == PLAN_FROM_CDI)
		return;
	if (plan_origin_is_asked(origin)) {
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"%s keeps the value set before: ignored the file's '%s'", key, text);
		return;
	}
	plan_env_set(job->p, key, value, PLAN_FROM_CDI);
}

/* The path on this machine of a file below gpu_root(), where its links are followed; NULL when
 * missing. */
static char *host_path(const struct cdi_job *job, const char *path, struct stat *st)
{
	auto_free char *inside = *path == '/' ? gpu_dir_resolve(&job->root, path, st) : NULL;

	if (!inside)
		return NULL;
	/* Without a root to prepend, keep the CDI file's spelling. */
	return *job->root_path ? xasprintf("%s%s", job->root_path, inside) : xstrdup(path);
}

static int not_there(struct cdi_job *job, const char *path)
{
	if (*path != '/')
		return mlr_fail(job->err, EPROTO, "'%s' is not an absolute path", path);
	mlr_fail(job->err, ENOENT, "'%s' is not on this machine", path);
	return mlr_hint(job->err,
		"the file may describe an earlier driver: `mlrun gpu cdi` or the vendor's tool writes a new one");
}

static int check_numbers(
	struct cdi_job *job, const struct cdi_node *n, const char *path, const struct stat *st)
{
	unsigned major = major(st->st_rdev), minor = minor(st->st_rdev);
	int64_t want_minor = n->minor < 0 ? 0 : n->minor;

	/* 0:0 means unset, as in pkg/cdi, container-edits_unix.go; a missing one of the two is 0.
	 */
	if (n->major <= 0 && want_minor == 0)
		return 0;
	if ((n->major < 0 ? 0 : n->major) == (int64_t)major && want_minor == (int64_t)minor)
		return 0;
	mlr_fail(job->err, ENODEV, "the device '%s' is %u:%u, and the file says %lld:%lld", path,
		major, minor, (long long)(n->major < 0 ? 0 : n->major), (long long)want_minor);
	return mlr_hint(job->err,
		"drivers may get other numbers at each boot: `mlrun gpu cdi` or the vendor's tool writes a new file");
}

/* In a fake tree any character device or regular file may stand for a node (root.h). */
static int check_node(
	struct cdi_job *job, const struct cdi_node *n, const char *path, const struct stat *st)
{
	char type = n->type ? n->type[0] : '\0';
	int fits;

	if (!job->root.is_machine && (S_ISREG(st->st_mode) || S_ISCHR(st->st_mode)))
		return 0;
	if (type == 'b')
		fits = S_ISBLK(st->st_mode);
	else if (type == 'p')
		fits = S_ISFIFO(st->st_mode);
	else if (type)
		fits = S_ISCHR(st->st_mode);
	else
		fits = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) || S_ISFIFO(st->st_mode);
	if (!fits)
		return mlr_fail(job->err, ENODEV, "'%s' is not a %s", path,
			type == 'b'           ? "block device"
				: type == 'p' ? "pipe"
					      : "character device");
	return S_ISFIFO(st->st_mode) ? 0 : check_numbers(job, n, path, st);
}

/* Remark on a mode, owner or permissions that the node does not have on the host. */
static void remark_node(
	struct cdi_job *job, const struct cdi_node *n, const char *path, const struct stat *st)
{
	if (n->file_mode >= 0 && (n->file_mode & 0777) != (int64_t)(st->st_mode & 0777))
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"'%s' keeps its mode %04o: the file's %04o would need root", path,
			(unsigned)st->st_mode & 0777, (unsigned)n->file_mode & 0777);
	if ((n->uid >= 0 && n->uid != (int64_t)st->st_uid) ||
		(n->gid >= 0 && n->gid != (int64_t)st->st_gid))
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"'%s' keeps its owner %u:%u: the file's would need root", path,
			(unsigned)st->st_uid, (unsigned)st->st_gid);
	if (n->permissions && !(strchr(n->permissions, 'r') && strchr(n->permissions, 'w')))
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"'%s' can be read and written as its mode says: the file's '%s' would need root",
			path, n->permissions);
}

/* Explain why the user may not open a node. The caller frees the text. */
static char *why_not(const char *path, const struct stat *st, int code)
{
	const struct gpu_node n = { .path = (char *)path,
		.major = major(st->st_rdev),
		.minor = minor(st->st_rdev),
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mode = st->st_mode & 07777,
		.error = code };

	return gpu_node_why(&n);
}

/* The errno value with which opening would fail, or 0. */
static int access_error(const char *source)
{
	if (access(source, R_OK | W_OK) == 0)
		return 0;
	return errno == EPERM ? EPERM : EACCES;
}

static int add_node(struct cdi_job *job, const struct cdi_node *n, int *code, struct stat *st)
{
	const char *path = n->host_path ? n->host_path : n->path;
	auto_free char *source = host_path(job, path, st);

	if (!source)
		return not_there(job, path);
	TRY(check_node(job, n, path, st));
	*code = access_error(source);
	if (cdi_is_planned(job->p, PLAN_BIND, source, n->path))
		return 0;
	remark_node(job, n, path, st);
	if (*code) {
		auto_free char *why = why_not(path, st, *code);

		plan_remark_add(job->p, PLAN_FROM_CDI, "%s", why);
	}
	return plan_mount_add(job->p, PLAN_BIND, source, n->path, 0, PLAN_FROM_CDI, job->err);
}

/* Is it an NVIDIA GPU itself, not a node of its graphics? */
static int is_gpu(const char *path)
{
	return strncmp(path, "/dev/nvidia", 11) == 0 && path[11] >= '0' && path[11] <= '9';
}

/* A device is unusable if none of its nodes can be opened. Some may be closed: a display's, for
 * example. */
static int add_nodes(struct cdi_job *job, const struct cdi_edits *e)
{
	size_t n[2] = { 0, 0 }, closed[2] = { 0, 0 };
	auto_free char *why = NULL;

	for (size_t i = 0; i < e->n_nodes; i++) {
		const char *path = e->nodes[i].host_path ? e->nodes[i].host_path : e->nodes[i].path;
		int gpu = is_gpu(e->nodes[i].path), code = 0;
		struct stat st;

		TRY(add_node(job, &e->nodes[i], &code, &st));
		n[gpu]++;
		closed[gpu] += code != 0;
		if (code && (!why || (gpu && closed[1] == 1)))
			set_ptr(&why, why_not(path, &st, code));
	}
	if (!why || (n[1] ? closed[1] < n[1] : closed[0] < n[0]))
		return 0;
	return mlr_fail(job->err, EACCES, "%s", why);
}

static int is_tmpfs_option(const char *word)
{
	static const char *const keys[] = { "size=", "mode=", "nr_inodes=", "nr_blocks=", "huge=" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strncmp(word, keys[i], strlen(keys[i])) == 0)
			return !strchr(word, ',');
	return 0;
}

/* ret: the options of tmpfs itself, joined by commas. */
static int read_options(
	struct cdi_job *job, const struct cdi_mount *m, int is_tmpfs, unsigned *flags, char **ret)
{
	*ret = xstrdup("mode=1777");
	for (size_t i = 0; i < m->options.n; i++) {
		const char *word = m->options.v[i];

		if (plan_mount_option(word, flags))
			continue;
		if (is_tmpfs && is_tmpfs_option(word)) {
			char *more = xasprintf("%s,%s", *ret, word);

			set_ptr(ret, more);
		} else {
			return mlr_fail(job->err, ENOTSUP, "unknown mount option '%s'", word);
		}
	}
	return 0;
}

static int is_bind(const struct cdi_mount *m)
{
	return !m->type || strcmp(m->type, "bind") == 0 || strcmp(m->type, "none") == 0 ||
		strv_has(&m->options, "bind") || strv_has(&m->options, "rbind");
}

static int add_mount(struct cdi_job *job, const struct cdi_mount *m)
{
	int bind = is_bind(m), r;
	auto_free char *source = NULL, *text = NULL;
	unsigned flags = 0;
	struct stat st;

	if (!bind && strcmp(m->type, "tmpfs") != 0)
		return mlr_fail(job->err, ENOTSUP,
			"a file system of type '%s' cannot be mounted by an ordinary user",
			m->type);
	TRY(read_options(job, m, !bind, &flags, &text));
	source = bind ? host_path(job, m->host_path, &st) : NULL;
	if (bind && !source)
		return not_there(job, m->host_path);
	if (cdi_is_planned(job->p, bind ? PLAN_BIND : PLAN_TMPFS, source, m->container_path))
		return 0;
	r = plan_mount_add(job->p, bind ? PLAN_BIND : PLAN_TMPFS, source, m->container_path, flags,
		PLAN_FROM_CDI, job->err);
	if (r == 0 && !bind)
		job->p->mounts[job->p->n_mounts - 1].options = take_ptr(&text);
	return r;
}

static int is_member(gid_t gid)
{
	gid_t *v;
	int n = getgroups(0, NULL), found = gid == getegid();

	if (n <= 0)
		return found;
	v = xcalloc((size_t)n, sizeof(*v));
	n = getgroups(n, v);
	for (int i = 0; i < n && !found; i++)
		found = v[i] == gid;
	free(v);
	return found;
}

int cdi_edits_plan(struct cdi_job *job, const struct cdi_edits *e, const char *what)
{
	for (size_t i = 0; i < e->env.n; i++)
		set_variable(job, e->env.v[i]);
	TRY(add_nodes(job, e));
	for (size_t i = 0; i < e->n_mounts; i++)
		TRY(add_mount(job, &e->mounts[i]));
	for (size_t i = 0; i < e->n_gids; i++)
		if (e->gids[i] != 0 && !is_member((gid_t)e->gids[i]))
			plan_remark_add(job->p, PLAN_FROM_CDI,
				"%s wants group %lld, which you are not in and which a user's container cannot add",
				what, (long long)e->gids[i]);
	return 0;
}
