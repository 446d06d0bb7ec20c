#include "plan/plan.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void plan_init(struct plan *p)
{
	memset(p, 0, sizeof(*p));
}

void plan_done(struct plan *p)
{
	for (size_t i = 0; i < p->n_mounts; i++) {
		free(p->mounts[i].source);
		free(p->mounts[i].target);
		free(p->mounts[i].options);
	}
	for (size_t i = 0; i < p->n_env; i++) {
		free(p->env[i].key);
		free(p->env[i].value);
		free(p->env[i].shadowed);
	}
	free(p->mounts);
	free(p->env);
	free(p->keep_fds);
	free(p->limits);
	free(p->kept);
	free(p->hostname);
	free(p->seccomp);
	free(p->share);
	strv_done(&p->lowers);
	strv_done(&p->dropped);
	strv_done(&p->argv);
	strv_done(&p->notes);
	free(p->id.name);
	free(p->id.group);
	free(p->id.home);
	free(p->id.shell);
	free(p->workdir);
	free(p->squashfs);
	free(p->root_choice);
	free(p->platform);
	free(p->image);
	free(p->image_user);
	plan_init(p);
}

int plan_mount_add(struct plan *p, enum plan_kind kind, const char *source, const char *target,
	unsigned flags, const char *origin, struct mlr_error *err)
{
	auto_free char *clean = path_clean(target);

	if (!clean)
		return mlr_fail(err, EINVAL, "mount target '%s' is not an absolute path", target);
	if (strcmp(clean, "/") == 0)
		return mlr_fail(
			err, EINVAL, "mount target '%s' is the root, which is the image's", target);

	p->mounts = xgrow(p->mounts, p->n_mounts, sizeof(*p->mounts));
	p->mounts[p->n_mounts++] = (struct plan_mount){
		.kind = kind,
		.source = source ? xstrdup(source) : NULL,
		.target = take_ptr(&clean),
		.flags = flags,
		.origin = origin,
	};
	return 0;
}

void plan_keep_fd(struct plan *p, int fd)
{
	for (size_t i = 0; i < p->n_keep_fds; i++)
		if (p->keep_fds[i] == fd)
			return;
	p->keep_fds = xreallocarray(p->keep_fds, p->n_keep_fds + 1, sizeof(*p->keep_fds));
	p->keep_fds[p->n_keep_fds++] = fd;
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

/* FNV-1a. Jobs have hundreds of variables, most of them with one beginning. */
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

void plan_env_set(struct plan *p, const char *key, const char *value, const char *origin)
{
	struct plan_env *e = env_find(p, key);

	if (e) {
		free(e->shadowed);
		e->shadowed = e->value;
		e->shadowed_by = e->origin;
		e->value = xstrdup(value);
		e->origin = origin;
		return;
	}
	p->env = xgrow(p->env, p->n_env, sizeof(*p->env));
	p->env[p->n_env++] = (struct plan_env){
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
	memmove(e, e + 1, (size_t)(p->env + p->n_env - (e + 1)) * sizeof(*e));
	p->n_env--;
}

const char *plan_env_get(const struct plan *p, const char *key)
{
	struct plan_env *e = env_find(p, key);

	return e ? e->value : NULL;
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

	/* What is mounted last lies on top: an empty directory hides the host's below it. */
	for (size_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];

		if (path_below(path, m->target))
			covered = m->kind == PLAN_BIND || m->kind == PLAN_OVERLAY;
	}
	return covered;
}
