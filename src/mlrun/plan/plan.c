#include "plan/plan.h"

void plan_init(struct plan *p)
{
	memset(p, 0, sizeof(*p));
}

void plan_mount_drop(struct plan *p, size_t i)
{
	struct plan_mount *m = &p->mounts[i];

	free(m->source);
	free(m->target);
	free(m->options);
	free(m->text);
	memmove(m, m + 1, (--p->n_mounts - i) * sizeof(*m));
}

void plan_done(struct plan *p)
{
	while (p->n_mounts > 0)
		plan_mount_drop(p, p->n_mounts - 1);
	for (size_t i = 0; i < p->n_env; i++) {
		free(p->env[i].key);
		free(p->env[i].value);
		free(p->env[i].shadowed);
		free(p->env[i].if_there);
	}
	for (size_t i = 0; i < p->n_libraries; i++) {
		free(p->libraries[i].name);
		free(p->libraries[i].path);
	}
	for (size_t i = 0; i < p->n_remarks; i++)
		free(p->remarks[i].text);
	for (size_t i = 0; i < p->n_open; i++)
		free(p->open[i].path);
	free(p->open);
	free(p->mounts);
	free(p->env);
	free(p->libraries);
	free(p->remarks);
	free(p->keep_fds);
	free(p->limits);
	free(p->caps);
	free(p->kept);
	free(p->hostname);
	free(p->commands);
	free(p->seccomp);
	free(p->share);
	strv_done(&p->lowers);
	strv_done(&p->dropped);
	strv_done(&p->prelude);
	strv_done(&p->argv);
	strv_done(&p->notes);
	strv_done(&p->cgroup);
	free(p->id.name);
	free(p->id.group);
	free(p->id.groups);
	free(p->id.home);
	free(p->id.shell);
	free(p->workdir);
	free(p->squashfs);
	free(p->part);
	free(p->as_trees);
	free(p->root_choice);
	free(p->platform);
	free(p->image);
	free(p->image_user);
	plan_init(p);
}

const char *plan_program(const struct plan *p)
{
	return p->prelude.n ? p->prelude.v[0] : p->argv.n ? p->argv.v[0] : NULL;
}

int plan_mount_option(const char *word, unsigned *flags)
{
	static const struct {
		const char *word;
		unsigned set, clear;
	} known[] = {
		{ "ro", PLAN_READONLY, 0 },
		{ "rro", PLAN_READONLY, 0 },
		{ "rw", 0, PLAN_READONLY },
		{ "nosuid", PLAN_NOSUID, 0 },
		{ "suid", 0, PLAN_NOSUID },
		{ "nodev", PLAN_NODEV, 0 },
		{ "dev", 0, PLAN_NODEV },
		{ "noexec", PLAN_NOEXEC, 0 },
		{ "exec", 0, PLAN_NOEXEC },
		{ "noatime", PLAN_NOATIME, 0 },
		{ "nodiratime", PLAN_NODIRATIME, 0 },
		{ "atime", 0, PLAN_NOATIME },
		{ "relatime", 0, PLAN_NOATIME },
		{ "strictatime", 0, PLAN_NOATIME },
		{ "diratime", 0, PLAN_NODIRATIME },
	};
	/* These change nothing: the mounts are the container's alone, with all that lies below
	 * them, and it never sees the host's later ones. */
	static const char *const ignored[] = { "bind", "rbind", "private", "rprivate", "slave",
		"rslave", "shared", "rshared", "unbindable", "runbindable", "norelatime",
		"nostrictatime", "async", "sync", "defaults" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].word, word) == 0) {
			*flags = (*flags | known[i].set) & ~known[i].clear;
			return 1;
		}
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (strcmp(ignored[i], word) == 0)
			return 1;
	return 0;
}

int plan_mount_add(struct plan *p, enum plan_kind kind, const char *source, const char *target,
	unsigned flags, enum plan_origin origin, struct mlr_error *err)
{
	auto_free char *clean = path_clean(target);

	if (!clean)
		return mlr_fail(err, EINVAL, "mount target '%s' is not an absolute path", target);
	if (strcmp(clean, "/") == 0)
		return mlr_fail(
			err, EINVAL, "mount target '%s' is the root, which is the image's", target);

	*xadd(p->mounts, p->n_mounts) = (struct plan_mount){
		.kind = kind,
		.source = source ? xstrdup(source) : NULL,
		.target = take_ptr(&clean),
		.flags = flags,
		.origin = origin,
	};
	return 0;
}

const struct plan_mount *plan_mount_at(const struct plan *p, const char *target)
{
	for (size_t i = p->n_mounts; i-- > 0;)
		if (strcmp(p->mounts[i].target, target) == 0)
			return &p->mounts[i];
	return NULL;
}

const char *plan_origin_name(enum plan_origin origin)
{
	static const char *const names[] = { [PLAN_FROM_DEFAULT] = "default",
		[PLAN_FROM_USER] = "user",
		[PLAN_FROM_IMAGE] = "image",
		[PLAN_FROM_CALLER] = "caller",
		[PLAN_FROM_SITE] = "site",
		[PLAN_FROM_CONFIG] = "config",
		[PLAN_FROM_JOINED] = "joined",
		[PLAN_FROM_MPI] = "mpi",
		[PLAN_FROM_GPU] = "gpu",
		[PLAN_FROM_CDI] = "cdi" };

	return names[origin];
}

int plan_origin_is_asked(enum plan_origin origin)
{
	return origin == PLAN_FROM_USER || origin == PLAN_FROM_SITE || origin == PLAN_FROM_CONFIG;
}

const char *plan_kind_name(enum plan_kind kind)
{
	static const char *const names[] = { [PLAN_BIND] = "bind",
		[PLAN_TMPFS] = "tmpfs",
		[PLAN_COPY] = "copy",
		[PLAN_SYMLINK] = "symlink",
		[PLAN_DEVPTS] = "devpts",
		[PLAN_OVERLAY] = "overlay",
		[PLAN_PROC] = "proc",
		[PLAN_SYSFS] = "sysfs",
		[PLAN_MQUEUE] = "mqueue",
		[PLAN_FILE] = "file",
		[PLAN_SEAL] = "seal" };

	return names[kind];
}

int plan_file_add(struct plan *p, const char *text, size_t size, const char *target,
	enum plan_origin origin, struct mlr_error *err)
{
	int r = plan_mount_add(p, PLAN_FILE, NULL, target, 0, origin, err);
	struct plan_mount *m;

	if (r < 0)
		return r;
	m = &p->mounts[p->n_mounts - 1];
	m->text = xmalloc(size + 1);
	memcpy(m->text, text, size);
	m->text[size] = '\0';
	m->text_size = size;
	return 0;
}

int plan_file_mount(struct plan *p, const char *text, size_t size, mode_t mode, const char *target,
	enum plan_origin origin, struct mlr_error *err)
{
	int r = plan_file_add(p, text, size, target, origin, err);

	if (r == 0) {
		p->mounts[p->n_mounts - 1].mode = mode;
		p->mounts[p->n_mounts - 1].flags = PLAN_READONLY;
	}
	return r;
}

static size_t depth(const char *target)
{
	size_t n = 0;

	for (; *target; target++)
		n += *target == '/';
	return n;
}

void plan_mounts_sort(struct plan *p, size_t first)
{
	for (size_t i = first + 1; i < p->n_mounts; i++) {
		struct plan_mount m = p->mounts[i];
		size_t at = i;

		for (; at > first && depth(p->mounts[at - 1].target) > depth(m.target); at--)
			p->mounts[at] = p->mounts[at - 1];
		p->mounts[at] = m;
	}
}

void plan_mounts_move(struct plan *from, struct plan *to)
{
	for (size_t i = 0; i < from->n_mounts; i++)
		*xadd(to->mounts, to->n_mounts) = from->mounts[i];
	from->n_mounts = 0;
}

int plan_kind_covers(enum plan_kind kind)
{
	return kind != PLAN_COPY && kind != PLAN_SYMLINK && kind != PLAN_FILE && kind != PLAN_SEAL;
}

void plan_library_add(
	struct plan *p, const char *name, const char *path, int bits, enum plan_origin origin)
{
	size_t i = 0;

	while (i < p->n_libraries &&
		(p->libraries[i].bits != bits || strcmp(p->libraries[i].name, name) != 0))
		i++;
	if (i == p->n_libraries) {
		(void)xadd(p->libraries, p->n_libraries);
	} else {
		free(p->libraries[i].name);
		free(p->libraries[i].path);
	}
	p->libraries[i] = (struct plan_library){ xstrdup(name), xstrdup(path), bits, origin };
}

void plan_mounts_first(struct plan *p, size_t from)
{
	for (size_t i = from; i < p->n_mounts; i++) {
		struct plan_mount m = p->mounts[i];

		memmove(&p->mounts[i - from + 1], &p->mounts[i - from], from * sizeof(m));
		p->mounts[i - from] = m;
	}
}

static int is_below_others(const struct plan *p, size_t first, const char *target)
{
	for (size_t i = 0; i < first; i++)
		if (plan_kind_covers(p->mounts[i].kind) && path_below(target, p->mounts[i].target))
			return 1;
	return 0;
}

void plan_mounts_into_image(struct plan *p, size_t first)
{
	struct plan_mount *own = xcalloc(p->n_mounts - first + 1, sizeof(*own));
	size_t n_own = 0, n = first;

	for (size_t i = first; i < p->n_mounts; i++)
		if (is_below_others(p, first, p->mounts[i].target))
			p->mounts[n++] = p->mounts[i];
		else
			own[n_own++] = p->mounts[i];
	memcpy(&p->mounts[n], own, n_own * sizeof(*own));
	free(own);
	plan_mounts_first(p, n);
}

void plan_open_add(struct plan *p, const char *path, mode_t mode)
{
	*xadd(p->open, p->n_open) = (struct plan_open){ xstrdup(path), mode };
}

mode_t plan_open_mode(const struct plan *p, const char *path, mode_t mode)
{
	for (size_t i = 0; i < p->n_open; i++)
		if (strcmp(p->open[i].path, path) == 0)
			return p->open[i].mode;
	return mode;
}

void plan_remark_add(struct plan *p, enum plan_origin origin, const char *fmt, ...)
{
	struct plan_remark *r;
	va_list ap;

	r = xadd(p->remarks, p->n_remarks);
	r->origin = origin;
	va_start(ap, fmt);
	r->text = xvasprintf(fmt, ap);
	va_end(ap);
}

void plan_keep_fd(struct plan *p, int fd)
{
	for (size_t i = 0; i < p->n_keep_fds; i++)
		if (p->keep_fds[i] == fd)
			return;
	p->keep_fds = xreallocarray(p->keep_fds, p->n_keep_fds + 1, sizeof(*p->keep_fds));
	p->keep_fds[p->n_keep_fds++] = fd;
}

const struct plan_limit_word plan_limit_words[] = {
	{ "as", RLIMIT_AS },
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "locks", RLIMIT_LOCKS },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "rss", RLIMIT_RSS },
	{ "rtprio", RLIMIT_RTPRIO },
	{ "rttime", RLIMIT_RTTIME },
	{ "sigpending", RLIMIT_SIGPENDING },
	{ "stack", RLIMIT_STACK },
	{ NULL, 0 },
};

const char *plan_limit_name(int resource)
{
	for (const struct plan_limit_word *w = plan_limit_words; w->name; w++)
		if (w->resource == resource)
			return w->name;
	return NULL;
}

void plan_limit_set(struct plan *p, int resource, rlim_t soft, rlim_t hard)
{
	size_t i = 0;

	while (i < p->n_limits && p->limits[i].resource != resource)
		i++;
	if (i == p->n_limits)
		p->limits = xreallocarray(p->limits, ++p->n_limits, sizeof(*p->limits));
	p->limits[i] = (struct plan_limit){ .resource = resource, .soft = soft, .hard = hard };
}

/* FNV-1a. Jobs have hundreds of variables, most with the same prefix. */
static unsigned hash_of(const char *key)
{
	unsigned hash = 2166136261u;

	for (; *key; key++)
		hash = (hash ^ (unsigned char)*key) * 16777619u;
	return hash;
}

static struct plan_env *env_find(const struct plan *p, const char *key)
{
	unsigned hash = hash_of(key);

	for (size_t i = 0; i < p->n_env; i++)
		if (p->env[i].hash == hash && strcmp(p->env[i].key, key) == 0)
			return &p->env[i];
	return NULL;
}

void plan_env_set(struct plan *p, const char *key, const char *value, enum plan_origin origin)
{
	struct plan_env *e = env_find(p, key);

	if (e) {
		free(e->shadowed);
		e->shadowed = e->value;
		e->shadowed_by = e->origin;
		e->value = xstrdup(value);
		e->origin = origin;
		free(take_ptr(&e->if_there));
		return;
	}
	*xadd(p->env, p->n_env) = (struct plan_env){
		.key = xstrdup(key),
		.value = xstrdup(value),
		.hash = hash_of(key),
		.origin = origin,
	};
}

void plan_env_unset(struct plan *p, const char *key)
{
	struct plan_env *e = env_find(p, key);

	if (!e)
		return;
	free(e->key);
	free(e->value);
	free(e->shadowed);
	free(e->if_there);
	memmove(e, e + 1, (size_t)(p->env + p->n_env - (e + 1)) * sizeof(*e));
	p->n_env--;
}

const char *plan_env_get(const struct plan *p, const char *key)
{
	struct plan_env *e = env_find(p, key);

	return e ? e->value : NULL;
}

enum plan_origin plan_env_origin(const struct plan *p, const char *key)
{
	struct plan_env *e = env_find(p, key);

	return e ? e->origin : PLAN_FROM_NOBODY;
}

static int any_there(const char *paths, int (*is_there)(void *ctx, const char *path), void *ctx)
{
	for (const char *s = paths; s; s = strchr(s, ':')) {
		s += *s == ':';
		auto_free char *path = xstrndup(s, strcspn(s, ":"));

		if (*path != '/' ? *path : is_there(ctx, path))
			return 1;
	}
	return 0;
}

void plan_env_look(struct plan *p, int (*is_there)(void *ctx, const char *path), void *ctx)
{
	for (size_t i = p->n_env; i-- > 0;) {
		auto_free char *key = xstrdup(p->env[i].key);

		const char *otherwise = p->env[i].otherwise;

		if (!p->env[i].if_there || any_there(p->env[i].if_there, is_there, ctx))
			continue;
		if (otherwise) {
			plan_env_set(p, key, otherwise, PLAN_FROM_DEFAULT);
			continue;
		}
		plan_env_unset(p, key);
		strv_take(&p->dropped, take_ptr(&key));
	}
}

void plan_env_list(const struct plan *p, struct strv *ret)
{
	for (size_t i = 0; i < p->n_env; i++) {
		const struct plan_env *e = &p->env[i];
		size_t key = strlen(e->key), value = strlen(e->value);
		char *s = xmalloc(key + value + 2);

		memcpy(s, e->key, key);
		s[key] = '=';
		memcpy(s + key + 1, e->value, value + 1);
		strv_take(ret, s);
	}
}

int plan_covers(const struct plan *p, const char *path)
{
	int covered = 0;

	/* Later mounts cover earlier ones: an empty directory hides the host's below it. */
	for (size_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];

		if (path_below(path, m->target))
			covered = m->kind == PLAN_BIND || m->kind == PLAN_OVERLAY;
	}
	return covered;
}
