#include "bundle/parts.h"

#include "base/account.h"

static int plan_command(struct bundle *b, struct plan *p, struct mlr_error *err)
{
	if (b->args.n == 0 || !*b->args.v[0])
		return mlr_fail(err, EPROTO, "'args': a command is missing");
	p->argv = b->args;
	b->args = (struct strv)STRV_INIT;
	p->argv_origin = p->workdir_origin = PLAN_FROM_CONFIG;
	p->workdir = take_ptr(&b->cwd);
	for (size_t i = 0; i < b->env.n; i++) {
		char *equals = strchr(b->env.v[i], '=');

		if (!equals || equals == b->env.v[i])
			return mlr_fail(err, EPROTO, "'env': '%s' is not NAME=VALUE", b->env.v[i]);
		*equals = '\0';
		plan_env_set(p, b->env.v[i], equals + 1, PLAN_FROM_CONFIG);
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

void process_home(struct plan *p)
{
	auto_call(account_done) struct account a = { 0 };

	if (plan_env_get(p, "HOME"))
		return;
	account_read("/etc/passwd", p->id.uid, NULL, 0, &a);
	plan_env_set(p, "HOME", a.home && *a.home ? a.home : "/", PLAN_FROM_IMAGE);
}

int process_plan(struct bundle *b, struct plan *p, struct mlr_error *err)
{
	struct plan_identity *id = &p->id;

	if (plan_command(b, p, err) < 0)
		return mlr_wrap(err, "'process'");
	plan_id(b->uid, b->uids, b->n_uids, geteuid(), &id->uid, &id->host_uid);
	plan_id(b->gid, b->gids, b->n_gids, getegid(), &id->gid, &id->host_gid);
	for (size_t i = 0; i < b->n_limits; i++)
		if (plan_limit(&b->limits[i], p, err) < 0)
			return mlr_wrap(err, "'process': 'rlimits'");
	p->caps = xmalloc(sizeof(*p->caps));
	*p->caps = b->caps;
	return 0;
}
