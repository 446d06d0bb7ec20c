/* The mounts of a RUN: the site's, and those of its flags. */
#include "build/run.h"

#include "base/authorities.h"
#include "base/file_owner.h"
#include "base/program.h"
#include "build/secret.h"
#include "exec/users_mounts.h"
#include "recipe/run_mount.h"
#include "rootfs/fill.h"
#include "store/cache.h"
#include "store/tree.h"

#include <sys/file.h>

/* The machine's CA certificates; NULL if there are none at the usual places. */
static const char *find_ca(const struct config *c)
{
	const struct config_value *v = c ? config_get(c, "build", "ca") : NULL;
	const char *own = getenv("SSL_CERT_FILE");

	if (v)
		return v->value;
	if (own && access(own, R_OK) == 0)
		return own;
	return authorities_file();
}

/* "SRC:DST:ro:optional": the last flag exists only in the configuration; the volume is left out if
 * SRC is missing. */
static void add_volume(struct running *r, const char *text)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *src = strsep(&rest, ":"), *dst = strsep(&rest, ":"), *flag;
	auto_strv struct strv flags = STRV_INIT;
	auto_free char *joined = NULL;
	int is_optional = 0;

	while (rest && (flag = strsep(&rest, ":,")))
		if (strcmp(flag, "optional") == 0)
			is_optional = 1;
		else
			strv_add(&flags, flag);
	if (is_optional && access(src, F_OK) < 0)
		return;
	joined = strv_join(&flags, flags.n, ",");
	strv_addf(&r->exec.volumes, "%s:%s%s%s", src, dst ? dst : src, *joined ? ":" : "", joined);
}

/* Add volumes and variables of the section [build], which are in neither the layer nor the key. */
static void add_configured(struct running *r)
{
	const struct config *c = r->b->o->config;

	for (size_t i = 0; c && i < c->n; i++) {
		const struct config_value *v = &c->v[i];

		if (strcmp(v->section, "build") != 0)
			continue;
		if (strcmp(v->key, "volume") == 0)
			add_volume(r, v->value);
		else if (strcmp(v->key, "env") == 0)
			strv_add(&r->exec.env, v->value);
	}
}

void run_add_site(struct running *r)
{
	/* At a site with a CA of its own programs could fetch nothing otherwise. */
	r->exec.ca = find_ca(r->b->o->config);
	r->exec.ca_origin = PLAN_FROM_SITE;
	add_configured(r);
	for (size_t i = 0; i < r->b->o->volumes->n; i++)
		add_volume(r, r->b->o->volumes->v[i]);
}

/* --- mounts ------------------------------------------------------------------ */

static int mount(struct running *r, const char *source, const struct run_mount *m,
	enum plan_kind kind, struct mlr_error *err)
{
	return volume_add(
		kind, source, m->target, m->read_only ? PLAN_READONLY : 0, &r->mounts, err);
}

static const char *source_of(const struct run_mount *m)
{
	return m->source ? m->source : ".";
}

/* List what a mount shows of a directory. */
static int list(struct running *r, const struct copy_source *src, const struct run_mount *m,
	struct copy *ret, struct mlr_error *err)
{
	const struct copy_wish w = { .pattern = source_of(m), .to = "/", .to_is_directory = 1 };

	*ret = (struct copy){ .source = *src, .mode = -1, .cancel = r->b->o->cancel };
	return copy_add(ret, &w, err);
}

/* Does the ignore file leave out anything of what is mounted? */
static int is_complete(struct running *r, const struct run_mount *m, const struct copy *listed)
{
	auto_call(copy_done) struct copy all = { 0 };
	struct copy_source src = listed->source;

	src.ignore = NULL;
	return listed->source.ignore->n == 0 ||
		(list(r, &src, m, &all, NULL) >= 0 && all.n == listed->n);
}

/* Keep what the ignore file does not leave out of a directory as a layer of the store. ret gets the
 * path of its tree. */
static int fill_layer(struct running *r, struct copy *c, char **ret, struct mlr_error *err)
{
	struct store *st = r->b->o->st;
	auto_free char *tree = NULL;
	char diff_id[OCI_DIGEST_SIZE];
	uint64_t bytes;

	TRY(rootfs_fill_digest(copy_tar, c, diff_id, &bytes, err));
	TRY(rootfs_fill(st, diff_id, copy_tar, c, err));
	tree = store_tree_relpath(STORE_LAYER, diff_id);
	*ret = xasprintf("%s/%s", store_path(st), tree);
	return 0;
}

/* A mount's source on this machine. */
struct found {
	char *path;
	struct stat st; /* of a file that others can exchange; else st_ino is 0 */
};

static void found_done(struct found *f)
{
	free(f->path);
}

/* Find a source, which no link leads out of. */
static int find_source(const struct copy_source *src, const struct run_mount *m, struct found *ret,
	struct mlr_error *err)
{
	auto_close int fd = file_open_in_root(src->fd, source_of(m), O_PATH, 0);

	if (fd < 0)
		return mlr_result(err, fd, "'%s' in %s", source_of(m), src->what);
	ret->path = file_fd_path(fd);
	return ret->path && fstat(fd, &ret->st) == 0
		? 0
		: mlr_fail_errno(err, "find '%s'", source_of(m));
}

/* Find the mount's source in a directory, whose content decides on the result. */
static int find_in_directory(struct running *r, const struct copy_source *src,
	const struct run_mount *m, struct found *ret, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	struct copy *c;
	int e;

	c = xadd(r->shown, r->n_shown);
	e = list(r, src, m, c, err);
	c->source.fd =
		fcntl(src->fd, F_DUPFD_CLOEXEC, 3); /* to look again when the command has ended */
	if (e >= 0)
		e = copy_hash(c, hex, err);
	if (e < 0)
		return e;
	strv_add(&r->keys, hex);
	return !src->ignore || is_complete(r, m, c) ? find_source(src, m, ret, err)
						    : fill_layer(r, c, &ret->path, err);
}

static int mount_bind(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	struct copy_source src = { .fd = -1 };
	auto_call(found_done) struct found found = { 0 };
	auto_free char *key = NULL;
	int e;

	TRY(build_source(r->b, m->from, &src, &key, err));
	if (key)
		strv_addf(&r->keys, "%s %s", key, source_of(m));
	e = key ? find_source(&src, m, &found, err) : find_in_directory(r, &src, m, &found, err);
	close(src.fd);
	if (e == 0)
		e = mount(r, found.path, m, m->read_only ? PLAN_BIND : PLAN_OVERLAY, err);
	if (e < 0)
		return e;
	r->mounts.mounts[r->mounts.n_mounts - 1].dev = found.st.st_dev;
	r->mounts.mounts[r->mounts.n_mounts - 1].ino = found.st.st_ino;
	return 0;
}

/* Copy a directory into another by cp(1). Returns 0 or -EIO. */
static int copy_directory(const char *from, const char *to, struct mlr_error *err)
{
	auto_free char *source = xasprintf("%s/.", from), *cp = program_find("cp");
	char *const argv[] = { (char *)"cp", (char *)"-R", (char *)"-P",
		(char *)"--preserve=mode,timestamps", (char *)"--", source, (char *)to, NULL };
	char said[1];
	int status = 0;

	return cp && program_ask(cp, argv, said, sizeof(said), &status) >= 0 && status == 0
		? 0
		: mlr_fail(err, EIO, "fill the new cache");
}

/* The directory that from= and source= name. Of the context it is a copy, as for a bind mount:
 * without what the ignore file leaves out, and whatever others who may write there exchange
 * meanwhile. */
static int find_seed(
	struct running *r, const struct run_mount *m, struct found *ret, struct mlr_error *err)
{
	struct copy_source src = { .fd = -1 };
	auto_call(copy_done) struct copy listed = { 0 };
	auto_free char *key = NULL;
	struct stat st;
	int e;

	TRY(build_source(r->b, m->from, &src, &key, err));
	e = find_source(&src, m, ret, err);
	if (e == 0 && (stat(ret->path, &st) < 0 || !S_ISDIR(st.st_mode)))
		e = mlr_fail(err, ENOTDIR, "'%s' in %s is no directory", source_of(m), src.what);
	if (e == 0 && !key) {
		free(take_ptr(&ret->path));
		e = list(r, &src, m, &listed, err);
		if (e >= 0)
			e = fill_layer(r, &listed, &ret->path, err);
	}
	close(src.fd);
	return e;
}

/* Fill a new cache. It is whole when it appears; of two builds one fills it. */
static int fill_cache(
	struct running *r, const struct run_mount *m, const char *path, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_call(found_done) struct found found = { 0 };
	char random[RANDOM_HEX_SIZE];
	auto_free char *new = NULL;
	int e = file_list(AT_FDCWD, path, 0, &names);

	if (e < 0 || names.n > 0)
		return 0;
	random_hex(random);
	new = xasprintf("%s.%s", path, random);
	TRY(find_seed(r, m, &found, err));
	e = mkdir(new, 0700) < 0 ? mlr_fail_errno(err, "make '%s'", new)
				 : copy_directory(found.path, new, err);
	if (e == 0 && rename(new, path) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		e = mlr_fail_errno(err, "put the filled cache in place");
	if (e < 0 || access(new, F_OK) == 0)
		file_remove_tree(AT_FDCWD, new, NULL);
	return e;
}

/* The owner that a mount names; root by default. */
static struct file_owner owner_of(const struct run_mount *m)
{
	return (struct file_owner){ m->uid > 0 ? (uint32_t)m->uid : 0,
		m->gid > 0 ? (uint32_t)m->gid : 0, 0 };
}

/* Set the owner, a fake root's record, and the mode that a cache is to have. */
static int give_cache(const char *path, const struct run_mount *m, struct mlr_error *err)
{
	const struct file_owner o = owner_of(m);
	struct stat st = { 0 };
	mode_t mode;
	int e = stat(path, &st) < 0 ? -errno : 0;

	mode = m->mode >= 0 ? (mode_t)m->mode & 01777 : st.st_mode & 07777;
	if (e == 0 && (m->uid >= 0 || m->gid >= 0))
		e = chmod(path, mode | S_IWUSR) < 0 ? -errno : file_owner_set(path, &o);
	if (e == 0 && chmod(path, mode) < 0)
		e = -errno;
	return mlr_result(err, e, "set mode and owner of '%s'", path);
}

/* A cache is a directory of the store that outlives builds. It changes no key. */
static int mount_cache(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	auto_free char *path = NULL;
	int e = store_cache_mount(r->b->o->st, m->id ? m->id : m->target, &path, err);

	if (e == 0 && (m->from || m->source))
		e = fill_cache(r, m, path, err);
	if (e == 0 && (m->mode >= 0 || m->uid >= 0 || m->gid >= 0))
		e = give_cache(path, m, err);
	if (e < 0)
		return e;
	if (m->sharing != RUN_MOUNT_SHARED)
		strv_add(&r->to_lock, path);
	return mount(r, path, m, PLAN_BIND, err);
}

/* The value becomes a file in memory, or a variable, of this command alone. */
static int mount_secret(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	const char *id = m->id ? m->id
		: m->source    ? m->source
		: m->target    ? path_base(m->target)
			       : m->env;
	auto_free char *value = NULL, *target = NULL;
	size_t len = 0;
	int e = secret_read(r->b->o->secrets, id, &value, &len, err);

	if (e < 0)
		return e;
	if (!value && m->required) {
		mlr_fail(err, ENOENT, "the secret '%s' is required", id);
		return mlr_hint(err, "--secret id=%s,src=FILE gives it", id);
	}
	if (!value)
		return 0;
	if (m->env && strlen(value) != len)
		e = mlr_fail(err, EINVAL,
			"the secret '%s' has a NUL byte, which no variable can hold", id);
	else if (m->env)
		strv_addf(&r->exec.env, "%s=%s", m->env, value);
	if (e == 0 && (m->target || !m->env)) {
		target = m->target ? xstrdup(m->target) : xasprintf("/run/secrets/%s", id);
		e = plan_file_mount(&r->mounts, value, len,
			m->mode > 0 ? (mode_t)m->mode & 0777 : 0400, target, PLAN_FROM_USER, err);
		if (e == 0) {
			r->mounts.mounts[r->mounts.n_mounts - 1].uid = owner_of(m).uid;
			r->mounts.mounts[r->mounts.n_mounts - 1].gid = owner_of(m).gid;
		}
	}
	explicit_bzero(value, len);
	return e;
}

/* The socket of --ssh ID=SOCKET, or NULL. */
static const char *find_agent(const struct build *b, const char *id)
{
	size_t len = strlen(id);

	for (size_t i = 0; b->o->ssh && i < b->o->ssh->n; i++)
		if (strncmp(b->o->ssh->v[i], id, len) == 0 && b->o->ssh->v[i][len] == '=')
			return b->o->ssh->v[i] + len + 1;
	return NULL;
}

static int mount_ssh(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	const char *target = m->target ? m->target : "/run/buildkit/ssh_agent.0";
	const char *id = m->id ? m->id : "default", *socket = find_agent(r->b, id);

	if (!socket && m->required) {
		mlr_fail(err, ENOENT, "the SSH agent '%s' is required", id);
		return mlr_hint(err, "--ssh %s passes on the one of SSH_AUTH_SOCK", id);
	}
	if (!socket)
		return 0;
	strv_addf(&r->exec.env, "SSH_AUTH_SOCK=%s", target);
	return volume_add(PLAN_BIND, socket, target, 0, &r->mounts, err);
}

static int add_mount(struct running *r, struct run_mount *m, struct mlr_error *err)
{
	auto_strv struct strv options = STRV_INIT;

	if (m->target) {
		auto_free char *absolute =
			xasprintf("%s/%s", *m->target == '/' ? "" : r->exec.workdir, m->target);

		set_ptr(&m->target, path_clean(absolute));
		if (strcmp(m->target, "/") == 0) {
			mlr_fail(err, EINVAL, "it would hide the whole image: its target is /");
			return mlr_hint(err, "name a target, or a WORKDIR before it");
		}
	}
	switch (m->type) {
	case RUN_MOUNT_BIND:
		return mount_bind(r, m, err);
	case RUN_MOUNT_CACHE:
		return mount_cache(r, m, err);
	case RUN_MOUNT_SECRET:
		return mount_secret(r, m, err);
	case RUN_MOUNT_SSH:
		return mount_ssh(r, m, err);
	default:
		break;
	}
	if (m->size)
		strv_addf(&options, "size=%llu", (unsigned long long)m->size);
	return tmpfs_add(m->target, &options, m->read_only ? PLAN_READONLY : 0, &r->mounts, err);
}

int run_add_flags(struct running *r, struct mlr_error *err)
{
	const struct expand e = scope_expand(&r->s->scope, r->b->o->recipe->escape);

	for (size_t i = 0; i < r->in->flags.n; i++) {
		const char *flag = r->in->flags.v[i];
		auto_call(run_mount_done) struct run_mount m = RUN_MOUNT_INIT;
		int x = 0;

		if (strncmp(flag, "--mount=", 8) == 0) {
			x = run_mount_parse(flag + 8, &e, &m, err);
			if (x == 0)
				x = add_mount(r, &m, err);
		} else if (strncmp(flag, "--device=", 9) == 0) {
			strv_addf(&r->exec.devices, "%.*s", (int)strcspn(flag + 9, ","), flag + 9);
		}
		if (x < 0)
			return mlr_wrap(err, "RUN %s", flag);
	}
	return 0;
}

/* --- locks of caches ---------------------------------------------------------- */

#define LOCK_MS 100

/* Wait for another build, which may take long. flock(2) itself would not notice a signal. */
static int wait_for_lock(struct running *r, int fd, const char *path, struct mlr_error *err)
{
	mlr_info("line %u: waiting for a cache that another build uses", r->in->line);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return mlr_fail_errno(err, "lock '%s'", path);
		if (build_is_cancelled(r->b))
			return mlr_fail(err, ECANCELED, "interrupted");
		mlr_sleep_ms(LOCK_MS);
	}
	return 0;
}

static int lock_one(struct running *r, const char *path, int wait, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int e = 0;

	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return mlr_fail_errno(err, "lock '%s'", path);
		if (!wait)
			return 1;
		e = wait_for_lock(r, fd, path, err);
	}
	if (e < 0)
		return e;
	*xadd(r->locks, r->n_locks) = take_fd(&fd);
	return 0;
}

void run_unlock(struct running *r)
{
	for (size_t i = 0; i < r->n_locks; i++)
		close(r->locks[i]);
	free(take_ptr(&r->locks));
	r->n_locks = 0;
}

int run_lock(struct running *r, int wait, struct mlr_error *err)
{
	/* Everybody locks in the same order, so nobody waits for whom waits for it. */
	strv_sort(&r->to_lock);
	for (size_t i = 0; i < r->to_lock.n; i++) {
		int e = i > 0 && strcmp(r->to_lock.v[i], r->to_lock.v[i - 1]) == 0
			? 0
			: lock_one(r, r->to_lock.v[i], wait, err);

		if (e == 0)
			continue;
		run_unlock(r);
		return e;
	}
	return 0;
}
