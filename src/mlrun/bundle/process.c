#include "bundle/parts.h"

#include "base/base.h"
#include "bundle/field.h"
#include "plan/capability.h"

#define PASSWD_MAX (1u << 20) /* bytes */

static int plan_command(const json_t *process, struct plan *p, struct mlr_error *err)
{
	const char *cwd = NULL;
	auto_strv struct strv env = STRV_INIT;

	TRY(field_texts(process, "args", &p->argv, err));
	TRY(field_texts(process, "env", &env, err));
	TRY(field_text(process, "cwd", &cwd, err));
	if (p->argv.n == 0 || !*p->argv.v[0])
		return mlr_fail(err, EPROTO, "'args': a command is missing");
	if (!cwd || *cwd != '/')
		return mlr_fail(err, EPROTO, "'cwd': expected an absolute path");
	p->argv_origin = p->workdir_origin = PLAN_FROM_CONFIG;
	p->workdir = xstrdup(cwd);
	for (size_t i = 0; i < env.n; i++) {
		char *equals = strchr(env.v[i], '=');

		if (!equals || equals == env.v[i])
			return mlr_fail(err, EPROTO, "'env': '%s' is not NAME=VALUE", env.v[i]);
		*equals = '\0';
		plan_env_set(p, env.v[i], equals + 1, PLAN_FROM_CONFIG);
	}
	return 0;
}

/* Does a map say that this id is the same inside and outside? Then a bundle that another user wrote
 * means each user's own id. */
static int is_same_outside(const json_t *maps, json_int_t id, struct mlr_error *err)
{
	const json_t *map;
	size_t i;

	json_array_foreach(maps, i, map) {
		json_int_t inside = -1, outside = -2;
		int r = field_number(map, "containerID", 0, UINT_MAX - 1, &inside, err);

		if (r == 0)
			r = field_number(map, "hostID", 0, UINT_MAX - 1, &outside, err);
		if (r < 0)
			return r;
		if (inside == id && outside == id && id != 0)
			return 1;
	}
	return 0;
}

/* The one id that an ordinary user can map is the process's, and it is the caller's outside. */
static int plan_id(const json_t *user, const json_t *linux_, const char *key, const char *maps_key,
	unsigned own, unsigned *inside, unsigned *outside, struct mlr_error *err)
{
	const json_t *maps = NULL;
	json_int_t id = 0;
	int r = field_number(user, key, 0, UINT_MAX - 1, &id, err);

	if (r == 0)
		r = field_list(linux_, maps_key, &maps, err);
	if (r == 0)
		r = is_same_outside(maps, id, err);
	if (r < 0)
		return r;
	*inside = r ? own : (unsigned)id;
	*outside = own;
	return 0;
}

static int plan_ids(
	const json_t *process, const json_t *linux_, struct plan *p, struct mlr_error *err)
{
	struct plan_identity *id = &p->id;
	const json_t *user = NULL;
	int r = field_object(process, "user", &user, err);

	if (r == 0)
		r = plan_id(user, linux_, "uid", "uidMappings", geteuid(), &id->uid, &id->host_uid,
			err);
	if (r == 0)
		r = plan_id(user, linux_, "gid", "gidMappings", getegid(), &id->gid, &id->host_gid,
			err);
	return r < 0 ? mlr_wrap(err, "'user'") : 0;
}

/* Limits are unsigned 64-bit numbers; a number that jansson holds as a real is "unlimited", as Go
 * writes it. */
static int read_limit(const json_t *limit, const char *key, rlim_t *ret, struct mlr_error *err)
{
	const json_t *v = json_object_get(limit, key);

	if (json_is_real(v) && json_real_value(v) >= 9.2e18)
		*ret = RLIM_INFINITY;
	else if (json_is_integer(v) && json_integer_value(v) >= -1)
		*ret = json_integer_value(v) < 0 ? RLIM_INFINITY : (rlim_t)json_integer_value(v);
	else
		return mlr_fail(err, EPROTO, "'%s': expected a whole number", key);
	return 0;
}

/* "RLIMIT_NOFILE" is "nofile". */
static int plan_limit(const json_t *limit, struct plan *p, struct mlr_error *err)
{
	const char *type = "";
	const struct plan_limit_word *w = plan_limit_words;
	rlim_t soft, hard;

	TRY(field_text(limit, "type", &type, err));
	TRY(read_limit(limit, "soft", &soft, err));
	TRY(read_limit(limit, "hard", &hard, err));
	if (strncmp(type, "RLIMIT_", 7) == 0)
		while (w->name && strcasecmp(w->name, type + 7) != 0)
			w++;
	if (strncmp(type, "RLIMIT_", 7) != 0 || !w->name)
		return mlr_fail(err, EPROTO, "unknown limit '%s'", type);
	if (soft > hard)
		return mlr_fail(err, EPROTO, "%s: the soft limit is above the hard one", type);
	plan_limit_set(p, w->resource, soft, hard);
	return 0;
}

/* The sixth field of a line of passwd(5) whose third is uid; to free(), or NULL. */
static char *home_in(char *passwd, unsigned uid)
{
	char *lines = NULL;

	for (char *line = strtok_r(passwd, "\n", &lines); line;
		line = strtok_r(NULL, "\n", &lines)) {
		char *f[6], *end;
		int n = 0;

		while (n < 6 && line)
			f[n++] = strsep(&line, ":");
		if (n == 6 && *f[2] && strtoul(f[2], &end, 10) == uid && !*end && *f[5])
			return xstrdup(f[5]);
	}
	return NULL;
}

void process_home(const char *rootfs, struct plan *p)
{
	auto_close int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	auto_free char *text = NULL, *home = NULL;
	char name[40];

	if (root < 0 || plan_env_get(p, "HOME"))
		return;
	fd = file_open_in_root(root, "etc/passwd", O_RDONLY | O_NONBLOCK, 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (fd >= 0 && file_read_regular(AT_FDCWD, name, PASSWD_MAX, &text, NULL, NULL) == 0)
		home = home_in(text, p->id.uid);
	plan_env_set(p, "HOME", home ? home : "/", PLAN_FROM_IMAGE);
}

static int plan_limits(const json_t *process, struct plan *p, struct mlr_error *err)
{
	const json_t *list = NULL, *limit;
	size_t i;
	int r = field_list(process, "rlimits", &list, err);

	json_array_foreach(list, i, limit) {
		if (r == 0)
			r = plan_limit(limit, p, err);
	}
	return r < 0 ? mlr_wrap(err, "'rlimits'") : 0;
}

/* Names that this mlrun does not know are left out, as runc does. */
static int read_set(const json_t *caps, const char *key, uint64_t *ret, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	int r = field_texts(caps, key, &names, err);

	for (size_t i = 0; r == 0 && i < names.n; i++)
		*ret |= strcmp(names.v[i], "ALL") == 0 ? 0 : capability_bits(names.v[i]);
	return r;
}

static int plan_capabilities(const json_t *process, struct plan *p, struct mlr_error *err)
{
	const json_t *caps = NULL;
	struct plan_capabilities *c = p->caps = xcalloc(1, sizeof(*c));
	int r = field_object(process, "capabilities", &caps, err);

	if (r == 0)
		r = read_set(caps, "bounding", &c->bounding, err);
	if (r == 0)
		r = read_set(caps, "effective", &c->effective, err);
	if (r == 0)
		r = read_set(caps, "permitted", &c->permitted, err);
	if (r == 0)
		r = read_set(caps, "inheritable", &c->inheritable, err);
	if (r == 0)
		r = read_set(caps, "ambient", &c->ambient, err);
	return r < 0 ? mlr_wrap(err, "'capabilities'") : 0;
}

/* Labels that confine the process must not be skipped. */
static int refuse_labels(const json_t *process, struct mlr_error *err)
{
	static const char *const keys[] = { "apparmorProfile", "selinuxLabel" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *label = "";
		int r = field_text(process, keys[i], &label, err);

		if (r < 0)
			return r;
		if (*label)
			return mlr_fail(err, ENOTSUP, "'%s' is not supported", keys[i]);
	}
	return 0;
}

int process_plan(const json_t *process, const json_t *linux_, struct plan *p, struct mlr_error *err)
{
	int r = plan_command(process, p, err);

	if (r == 0)
		r = plan_ids(process, linux_, p, err);
	if (r == 0)
		r = plan_limits(process, p, err);
	if (r == 0)
		r = plan_capabilities(process, p, err);
	if (r == 0)
		r = refuse_labels(process, err);
	return r < 0 ? mlr_wrap(err, "'process'") : 0;
}
