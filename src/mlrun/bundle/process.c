#include "bundle/parts.h"

#include "base/base.h"

#define PASSWD_MAX (1u << 20) /* bytes */

static int plan_command(struct bundle_config *c, struct plan *p, struct mlr_error *err)
{
	if (c->args.n == 0 || !*c->args.v[0])
		return mlr_fail(err, EPROTO, "'args': a command is missing");
	p->argv = c->args;
	c->args = (struct strv)STRV_INIT;
	p->argv_origin = p->workdir_origin = PLAN_FROM_CONFIG;
	p->workdir = take_ptr(&c->cwd);
	for (size_t i = 0; i < c->env.n; i++) {
		char *equals = strchr(c->env.v[i], '=');

		if (!equals || equals == c->env.v[i])
			return mlr_fail(err, EPROTO, "'env': '%s' is not NAME=VALUE", c->env.v[i]);
		*equals = '\0';
		plan_env_set(p, c->env.v[i], equals + 1, PLAN_FROM_CONFIG);
	}
	return 0;
}

/* The one id that an ordinary user can map is the process's, and it is the caller's outside. Where
 * a map says that it is the same inside, a bundle that another user wrote means each user's own id.
 */
static void plan_id(unsigned id, const struct bundle_map *maps, size_t n, unsigned own,
	unsigned *inside, unsigned *outside)
{
	*inside = id;
	*outside = own;
	for (size_t i = 0; i < n; i++)
		if (id != 0 && maps[i].inside == id && maps[i].outside == id)
			*inside = own;
}

/* "RLIMIT_NOFILE" is "nofile". */
static int plan_limit(const struct bundle_limit *l, struct plan *p, struct mlr_error *err)
{
	const struct plan_limit_word *w = plan_limit_words;
	int is_limit = strncmp(l->type, "RLIMIT_", 7) == 0;

	while (is_limit && w->name && strcasecmp(w->name, l->type + 7) != 0)
		w++;
	if (!is_limit || !w->name)
		return mlr_fail(err, EPROTO, "unknown limit '%s'", l->type);
	if (l->soft > l->hard)
		return mlr_fail(err, EPROTO, "%s: the soft limit is above the hard one", l->type);
	plan_limit_set(p, w->resource, l->soft, l->hard);
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

void process_home(struct plan *p)
{
	auto_free char *text = NULL, *home = NULL;

	if (plan_env_get(p, "HOME"))
		return;
	if (file_read_regular(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text, NULL, NULL) == 0)
		home = home_in(text, p->id.uid);
	plan_env_set(p, "HOME", home ? home : "/", PLAN_FROM_IMAGE);
}

int process_plan(struct bundle_config *c, struct plan *p, struct mlr_error *err)
{
	struct plan_identity *id = &p->id;

	if (plan_command(c, p, err) < 0)
		return mlr_wrap(err, "'process'");
	plan_id(c->uid, c->uids, c->n_uids, geteuid(), &id->uid, &id->host_uid);
	plan_id(c->gid, c->gids, c->n_gids, getegid(), &id->gid, &id->host_gid);
	for (size_t i = 0; i < c->n_limits; i++)
		if (plan_limit(&c->limits[i], p, err) < 0)
			return mlr_wrap(err, "'process': 'rlimits'");
	p->caps = xmalloc(sizeof(*p->caps));
	*p->caps = c->caps;
	return 0;
}
