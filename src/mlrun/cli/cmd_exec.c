/* mlrun exec: options in, the command's own exit status out. */
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/runs.h"
#include "cli/save.h"

#include "plan/explain.h"
#include "rootfs/lookup.h"
#include "runtime/accounts.h"
#include "runtime/privileges.h"
#include "runtime/runtime.h"

#define ACCOUNTS_MAX (1u << 20) /* bytes */

static int enter_and_exec(struct plan *p, int (*become)(struct plan *p, struct mlr_error *err))
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	r = runtime_enter(p, &err);
	if (r < 0)
		return cli_fail_at(&err, "exec '%s'", p->image);
	r = become ? become(p, &err) : runtime_exec(p, &err);
	if (r == -ENOENT && p->argv.v[0][0] == '-')
		mlr_hint(&err, "options stand before IMAGE: mlrun exec %s ... IMAGE COMMAND",
			p->argv.v[0]);
	cli_fail_at(&err, "exec '%s'", p->image);
	return r == -ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

/* A start without surprises is silent. */
static void tell_notes(const struct plan *p)
{
	int speak = p->notes.n > 0 && cli_is_spokesman();

	for (size_t i = 0; i < p->notes.n; i++)
		mlr_log(speak ? MLR_INFO : MLR_DEBUG, "%s", p->notes.v[i]);
	for (size_t i = 0; i < p->n_remarks; i++)
		mlr_debug("%s", p->remarks[i].text);
}

/* --- --explain: the plan is printed ------------------------------------------- */

static void look(void *ctx, const char *path, int follow, struct plan_seen *ret)
{
	rootfs_look(ctx, path, follow, ret);
}

/* Will the image's file be replaced? If the image cannot be read: probably. */
static int is_written(const struct plan *p, const struct accounts_file *f)
{
	auto_free char *old = NULL, *text = NULL;

	rootfs_read(p, f->path, ACCOUNTS_MAX, &old, NULL);
	text = f->make(old, &p->id);
	return text != NULL;
}

static int is_there(void *plan, const char *path)
{
	struct plan_seen seen = { 0 };
	int there;

	rootfs_look(plan, path, 1, &seen);
	there = seen.there != PLAN_THERE_NOTHING;
	plan_seen_done(&seen);
	return there;
}

/* Returns 0, or CLI_FAILED if writing to stdout fails. */
static int explain(struct plan *p, enum cli_explain how)
{
	struct plan_context c = { .look = look, .ctx = p, .caps = privileges_kept(p) };
	int status = 0;

	plan_env_look(p, is_there, p);
	for (size_t i = 0; !p->join && i < ACCOUNTS_FILES; i++)
		if (is_written(p, &accounts_files[i]))
			strv_add(&c.files, accounts_files[i].path);
	if (how == CLI_EXPLAIN_JSON)
		status = cli_print_json(plan_json(p, &c));
	else
		plan_print(p, &c, stdout);
	strv_done(&c.files);
	return status;
}

/* --- --env-out ------------------------------------------------------------------ */

/* Write the command's variables, a NUL after each. If that fails, a later --join runs without these
 * variables. */
static void write_variables(const struct plan *p, const char *path)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_strv struct strv env = STRV_INIT;

	plan_env_list(p, &env);
	if (file_replace_list(AT_FDCWD, path, &env, 0600, &err) < 0)
		mlr_debug("%s", err.text);
}

/* --- exec ---------------------------------------------------------------------- */

static int plan_and_exec(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err))
{
	auto_call(config_done) struct config config = { 0 };
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct exec_options *o = &x->exec;
	int status;

	plan_init(&p);
	if (config_load(&config, &err) < 0 || exec_defaults(&config, o, &err) < 0)
		return cli_fail(&err);
	if (!x->explain && !o->join && o->pull != EXEC_PULL_NEVER && cli_can_fetch(o->image))
		o->fetch = cli_fetch;
	status = exec_plan(o, !x->explain, &p, &err);
	if (status < 0)
		status = cli_fail(&err);
	if (status == 0 && x->adjust)
		x->adjust(&p);
	if (status == 0 && x->explain)
		status = explain(&p, x->explain);
	rootfs_look_done();
	if (status != 0 || x->explain)
		return status;
	tell_notes(&p);
	runs_add(x, &config, &p);
	if (x->env_out && p.prelude.n == 0) /* else a shell sets them, and /proc has them */
		write_variables(&p, x->env_out);
	return enter_and_exec(&p, become);
}

/* Have messages name the node: a job's output is of many. */
static void name_node(void)
{
	static char name[HOST_NAME_MAX + 32];
	char host[HOST_NAME_MAX + 1] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		return;
	snprintf(name, sizeof(name), "mlrun: node '%s'", host);
	mlr_log_init(name);
}

int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err))
{
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	if (x->exec.dialect == EXEC_PYXIS)
		name_node();
	if (x->save && !x->explain && cli_save_begin(x, &err) < 0)
		return cli_fail(&err);
	status = plan_and_exec(x, become);
	cli_save_give_up();
	return status;
}

int cmd_exec(int argc, char **argv)
{
	static struct cli_exec x;

	cli_exec_parse(argc, argv, "IMAGE [--] [COMMAND [ARG...]]",
		"Run a command in an image, with the caller's own rights and files.\v"
		"IMAGE is [docker://]NAME[:TAG][@DIGEST]; or oci:DIR[:REF], oci-archive:FILE[:REF], "
		"docker-archive:FILE[:REF]; or FILE.sif, squashfs:FILE or rootfs:PATH, a plain "
		"directory. "
		"The exit status is the command's own; "
		"125: mlrun failed, 126: the command could not be executed, 127: it was not found.",
		&x);
	return cli_exec_run(&x, NULL);
}
