/* mlrun containers: lists and removes the containers that exec --write keeps. */
#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/options.h"

#include "base/json.h"
#include "runtime/kept.h"
#include "store/container.h"
#include "store/tree.h"

struct args {
	struct cli_common common;
	const char *verb; /* NULL: list */
	struct strv names;
	int force, json;
};

static void parse_argument(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (a->verb)
		strv_add(&a->names, arg);
	else if (strcmp(arg, "rm") == 0 || strcmp(arg, "unlock") == 0)
		a->verb = arg;
	else if (strcmp(arg, "list") != 0 && strcmp(arg, "ls") != 0)
		argp_error(state, "'%s': use list, rm or unlock", arg);
	else
		a->verb = "list";
}

static void check_arguments(void *args, struct argp_state *state)
{
	const struct args *a = args;
	int lists = !a->verb || strcmp(a->verb, "list") == 0;

	if (lists && a->names.n)
		argp_error(state, "no name is expected");
	if (!lists && a->names.n == 0)
		argp_error(state, "%s: a container is missing", a->verb);
	if (!lists && a->json)
		argp_error(state, "--json is for the list");
	if (a->force && (lists || strcmp(a->verb, "rm") != 0))
		argp_error(state, "--force is for rm");
}

static const struct option_row options[] = {
	{ "force", 'f', 0, 0,
		"rm: also one that was started in on another host or in another PID namespace", 0,
		OPT(struct args, force) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "[list]\nrm NAME...\nunlock NAME...",
	.s.doc =
		"List the containers that exec --write keeps, or remove them with what was written in them.",
	.s.operands = { OPT_CALL(parse_argument) },
	.s.check = check_arguments,
};

/* --- list ----------------------------------------------------------------- */

/* A host of "" means that nobody uses it. */
static json_t *user_json(const struct store_lease *l)
{
	if (!l->host[0])
		return json_null();
	return json_pack("{s:o, s:I, s:o, s:b}", "host", mlr_json_text(l->host), "pid",
		(json_int_t)l->pid, "job", mlr_json_text(l->job[0] ? l->job : NULL), "running",
		l->is_running);
}

static char *user_cell(const struct store_lease *l)
{
	if (!l->host[0])
		return NULL;
	return xasprintf("process %ld on %s%s%s%s", (long)l->pid, l->host,
		l->is_running ? "" : ", perhaps", l->job[0] ? ", job " : "", l->job);
}

static void put(struct listing *l, const struct store_container *c, const struct store_lease *user,
	uint64_t size, const char *path)
{
	listing_text(l, "NAME", "name", c->name);
	listing_text(l, "IMAGE", "image", c->image);
	listing_text(l, NULL, "manifest", c->manifest);
	listing_time(l, "CREATED", "created", c->created);
	listing_time(l, "USED", "used", c->image ? c->used : 0);
	listing_size(l, "SIZE", "size", size);
	listing_json(l, "user", user_json(user));
	listing_cell(l, "IN USE BY", user_cell(user));
	listing_text(l, NULL, "path", path);
}

/* List a container with an unreadable record by its name only. */
static void put_container(struct listing *l, struct store *st, const char *name)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	auto_free char *below = xasprintf("containers/%s", name);
	auto_free char *path = store_container_path(st, name);
	struct mlr_error why = MLR_ERROR_INIT;
	struct store_lease user;
	int r = store_container_get(st, name, &c, &why);

	if (r == -ENOENT)
		return;
	if (r < 0) {
		mlr_log_failure(MLR_WARNING, &why, "");
		c.name = xstrdup(name);
	}
	if (!store_container_used(st, name, &user))
		user.host[0] = '\0';
	listing_row(l);
	put(l, &c, &user, store_usage(st, below), path);
}

static int list(struct store *st, int json)
{
	static const struct store_container nothing;
	static const struct store_lease nobody;
	auto_strv struct strv names = STRV_INIT;
	struct listing l = { .as_json = json };
	struct mlr_error err = MLR_ERROR_INIT;

	if (st && store_container_names(st, &names, &err) < 0)
		return cli_fail(&err);
	for (size_t i = 0; i < names.n; i++)
		put_container(&l, st, names.v[i]);
	if (!l.rows) {
		listing_heads(&l);
		put(&l, &nothing, &nobody, 0, NULL);
	}
	return listing_end(&l);
}

/* --- rm, unlock ----------------------------------------------------------- */

/* Processes left by the container's command have no lease, but the kernel knows them. */
static int check_mounted(struct store *st, const char *name, struct mlr_error *err)
{
	auto_free char *path = store_container_path(st, name);

	if (!kept_is_mounted(path))
		return 0;
	mlr_fail(err, EBUSY, "processes that its last command left behind still run in it");
	return mlr_hint(err, "mlrun ps lists them");
}

static int change_one(struct store *st, const struct args *a, const char *name)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int removes = strcmp(a->verb, "rm") == 0, r = store_container_name_check(name, &err);

	if (r == 0 && removes)
		r = check_mounted(st, name, &err);
	if (r == 0)
		r = removes ? store_container_remove(st, name, a->force, &err)
			    : store_container_unlock(st, name, &err);
	if (r < 0)
		return cli_fail_at(&err, "containers %s '%s'", a->verb, name);
	mlr_info(removes ? "removed container '%s'" : "nothing locks container '%s' now", name);
	return 0;
}

int cmd_containers(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	static struct args a;
	int r, status = 0;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.common.store, &st, &err);
	if (!a.verb || strcmp(a.verb, "list") == 0) {
		if (r == -ENOENT && !a.common.store)
			r = cli_store_may_come(&err);
		if (r < 0)
			return cli_fail(&err);
		return list(st, a.json);
	}
	if (r < 0)
		status = cli_fail(&err);
	for (size_t i = 0; st && i < a.names.n; i++)
		if (change_one(st, &a, a.names.v[i]) != 0)
			status = CLI_FAILED;
	return status;
}
