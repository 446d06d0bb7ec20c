/* What a RUN mounts: what the site gives, and what its flags ask for. */
#include "build/run.h"

#include "base/authorities.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "recipe/run_mount.h"
#include "store/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* The [build] section: volumes and variables, which are in neither the layer nor the key. */
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
}

/* --- mounts ------------------------------------------------------------------ */

/* What is mounted decides on the result. */
static int hash_source(struct running *r, const struct copy_source *src, const char *path,
	const char *key, struct mlr_error *err)
{
	struct copy c = { .source = *src, .mode = -1, .cancel = r->b->o->cancel };
	const struct copy_wish w = { .pattern = path, .to = "/", .to_is_directory = 1 };
	char hex[HASH_HEX_SIZE];
	int e;

	if (key) {
		strv_addf(&r->keys, "%s %s", key, path);
		return 0;
	}
	c.source.ignore = NULL; /* the mount shows what the ignore file names, too */
	e = copy_add(&c, &w, err);
	if (e >= 0)
		e = copy_hash(&c, hex, err);
	copy_done(&c);
	if (e == 0)
		strv_add(&r->keys, hex);
	return e < 0 ? e : 0;
}

static int mount_bind(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	struct copy_source src = { .fd = -1 };
	auto_free char *key = NULL;
	auto_close int fd = -1;
	char self[32], path[4096];
	ssize_t n;
	int e = build_source(r->b, m->from, &src, &key, err);

	if (e < 0)
		return e;
	e = hash_source(r, &src, m->source ? m->source : ".", key, err);
	fd = file_open_in_root(src.fd, m->source ? m->source : ".", O_PATH, 0);
	close(src.fd);
	if (e < 0)
		return e;
	if (fd < 0)
		return mlr_fail(err, -fd, "'%s' in %s: %s", m->source ? m->source : ".", src.what,
			strerror(-fd));
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, path, sizeof(path) - 1);
	if (n < 0)
		return mlr_fail_errno(err, "find '%s'", m->source);
	path[n] = '\0';
	strv_addf(&r->exec.volumes, "%s:%s:%s", path, m->target, m->read_only ? "ro" : "O");
	return 0;
}

/* A cache is a directory of the store that outlives builds. It changes no key. */
static int mount_cache(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	auto_free char *path = NULL;
	int e = store_cache_mount(r->b->o->st, m->id ? m->id : m->target, &path, err);

	if (e == 0 && m->mode >= 0 && chmod(path, (mode_t)m->mode & 0777) < 0)
		e = mlr_fail_errno(err, "set the mode of '%s'", path);
	if (e < 0)
		return e;
	if (m->sharing != RUN_MOUNT_SHARED)
		strv_add(&r->to_lock, path);
	strv_addf(&r->exec.volumes, "%s:%s:%s", path, m->target, m->read_only ? "ro" : "rw");
	return 0;
}

/* "id=ID[,src=FILE|,env=NAME]" of --secret. 1 if it is the one; file and env may remain NULL. */
static int is_secret(const char *spec, const char *id, char **file, char **env)
{
	auto_free char *copy = xstrdup(spec);
	char *rest = copy, *part;
	int is_it = 0;

	while ((part = strsep(&rest, ","))) {
		const char *value = strchr(part, '=');

		if (!value)
			continue;
		value++;
		if (strncmp(part, "id=", 3) == 0)
			is_it = strcmp(value, id) == 0;
		else if (strncmp(part, "src=", 4) == 0 || strncmp(part, "source=", 7) == 0)
			*file = xstrdup(value);
		else if (strncmp(part, "env=", 4) == 0)
			*env = xstrdup(value);
	}
	return is_it;
}

#define SECRET_MAX (512u << 10) /* bytes */

/* The value, to free(); NULL if nobody gives it. */
static int read_secret(const struct build *b, const char *id, char **ret, struct mlr_error *err)
{
	for (size_t i = 0; b->o->secrets && i < b->o->secrets->n; i++) {
		auto_free char *file = NULL, *env = NULL;
		const char *value;

		if (!is_secret(b->o->secrets->v[i], id, &file, &env))
			continue;
		if (file)
			return file_read(AT_FDCWD, file, SECRET_MAX, ret, NULL, err);
		value = getenv(env ? env : id);
		if (!value)
			return mlr_fail(err, ENOENT, "secret '%s': no variable '%s' is set", id,
				env ? env : id);
		*ret = xstrdup(value);
		return 0;
	}
	return 0;
}

#define SECRETS_DIR "/dev/shm"
#define SECRET_NAME "mlrun-secret-" /* then the build's process id */

void run_sweep_secrets(void)
{
	auto_dir DIR *d = file_open_dir(AT_FDCWD, SECRETS_DIR, 0);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		long pid = strncmp(e->d_name, SECRET_NAME, strlen(SECRET_NAME)) == 0
			? strtol(e->d_name + strlen(SECRET_NAME), NULL, 10)
			: 0;

		if (pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			unlinkat(dirfd(d), e->d_name, 0); /* another user's stays */
	}
}

/* Write it to a file in memory that nobody else may read. */
static int write_secret(struct running *r, const struct run_mount *m, const char *value,
	char **path, struct mlr_error *err)
{
	auto_free char *name = xasprintf(SECRETS_DIR "/" SECRET_NAME "%ld.XXXXXX", (long)getpid());
	auto_close int fd = mkostemp(name, O_CLOEXEC);
	int e;

	if (fd < 0)
		return mlr_fail_errno(err, "create '%s'", name);
	strv_add(&r->temps, name);
	e = file_write_all(fd, value, strlen(value));
	if (e < 0 || fchmod(fd, m->mode >= 0 ? (mode_t)m->mode & 0777 : 0400) < 0)
		return mlr_fail(err, e < 0 ? -e : errno, "write '%s'", name);
	*path = take_ptr(&name);
	return 0;
}

static int mount_secret(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	const char *id = m->id ? m->id
		: m->source    ? m->source
		: m->target    ? path_base(m->target)
			       : m->env;
	auto_free char *value = NULL, *path = NULL, *target = NULL;
	int e = read_secret(r->b, id, &value, err);

	if (e < 0)
		return e;
	if (!value && m->required) {
		mlr_fail(err, ENOENT, "the secret '%s' is required", id);
		return mlr_hint(err, "--secret id=%s,src=FILE gives it", id);
	}
	if (!value)
		return 0;
	if (m->env)
		strv_addf(&r->exec.env, "%s=%s", m->env, value);
	if (m->env && !m->target)
		return 0;
	e = write_secret(r, m, value, &path, err);
	target = m->target ? xstrdup(m->target) : xasprintf("/run/secrets/%s", id);
	if (e == 0)
		strv_addf(&r->exec.volumes, "%s:%s:ro", path, target);
	explicit_bzero(value, strlen(value));
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
	strv_addf(&r->exec.volumes, "%s:%s", socket, target);
	strv_addf(&r->exec.env, "SSH_AUTH_SOCK=%s", target);
	return 0;
}

static int add_mount(struct running *r, struct run_mount *m, struct mlr_error *err)
{
	if (m->target && *m->target != '/') {
		char *absolute = xasprintf("%s/%s", r->exec.workdir, m->target);

		free(m->target);
		m->target = absolute;
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
		strv_addf(&r->exec.tmpfs, "%s:size=%llu,mode=1777", m->target,
			(unsigned long long)m->size);
	else
		strv_addf(&r->exec.tmpfs, "%s:mode=1777", m->target);
	return 0;
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
	const struct timespec nap = { 0, LOCK_MS * 1000000 };

	mlr_info("line %u: waiting for a cache that another build uses", r->in->line);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return mlr_fail_errno(err, "lock '%s'", path);
		if (build_is_cancelled(r->b))
			return mlr_fail(err, ECANCELED, "interrupted");
		nanosleep(&nap, NULL);
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
	r->locks = xgrow(r->locks, r->n_locks, sizeof(*r->locks));
	r->locks[r->n_locks++] = take_fd(&fd);
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
