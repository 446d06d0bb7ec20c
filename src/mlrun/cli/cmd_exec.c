/* mlrun exec (alias run): options in, the command's own exit status out. */
#include "cli/cmd_exec.h"

#include "cli/cli.h"
#include "cli/fetch.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "plan/plan.h"
#include "rootfs/lookup.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int enter_and_exec(struct plan *p, int (*become)(struct plan *p, struct mlr_error *err))
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	r = runtime_enter(p, &err);
	if (r < 0) {
		mlr_wrap(&err, "exec '%s'", p->image);
		return cli_fail(&err);
	}
	r = become ? become(p, &err) : runtime_exec(p, &err);
	if (r == -ENOENT && p->argv.v[0][0] == '-')
		mlr_hint(&err, "options stand before IMAGE: mlrun exec %s ... IMAGE COMMAND",
			p->argv.v[0]);
	mlr_wrap(&err, "exec '%s'", p->image);
	cli_fail(&err);
	return r == -ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

/* One rank of a job speaks for all. */
static int is_spokesman(void)
{
	static const char *const ranks[] = { "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
		"SLURM_PROCID" };

	for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
		const char *rank = getenv(ranks[i]);

		if (rank)
			return strcmp(rank, "0") == 0;
	}
	return 1;
}

/* A start that does what was asked is silent. */
static void tell_notes(const struct plan *p)
{
	int speak = p->notes.n > 0 && is_spokesman();

	for (size_t i = 0; i < p->notes.n; i++)
		mlr_log(speak ? MLR_INFO : MLR_DEBUG, "%s", p->notes.v[i]);
	for (size_t i = 0; i < p->n_remarks; i++)
		mlr_debug("%s", p->remarks[i].text);
}

/* For struct exec_options. */
static int fetch(const struct exec_options *o)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int speak = is_spokesman();

	if (cli_refuse_file(o->image, &err) < 0) {
		mlr_wrap(&err, "exec '%s'", o->image);
		return cli_fail(&err);
	}
	if (o->pull != EXEC_PULL_ALWAYS)
		mlr_log(speak ? MLR_INFO : MLR_DEBUG, "'%s' is not in the store and is pulled",
			o->image);
	return cli_fetch(o->image, o->store, !speak);
}

int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err))
{
	auto_call(config_done) struct config config = CONFIG_INIT;
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct exec_options *o = &x->exec;
	int status;

	plan_init(&p);
	if (config_load(&config, &err) < 0 || exec_defaults(&config, o, &err) < 0)
		return cli_fail(&err);
	if (!x->explain && !o->join && o->pull != EXEC_PULL_NEVER && cli_fetch_can(o->image))
		o->fetch = fetch;
	status = exec_plan(o, !x->explain, &p, &err);
	if (status < 0)
		status = cli_fail(&err);
	if (status == 0 && x->explain)
		status = cli_explain_print(&p, x->explain);
	rootfs_look_done();
	if (status != 0 || x->explain)
		return status;
	tell_notes(&p);
	return enter_and_exec(&p, become);
}

int cmd_exec(int argc, char **argv)
{
	struct cli_exec x = CLI_EXEC_INIT;
	int status;

	cli_exec_parse(argc, argv, "IMAGE [--] [COMMAND [ARG...]]",
		"Run a command in an image, with the caller's own rights and files.\v"
		"IMAGE is [docker://]NAME[:TAG][@DIGEST]; or oci:DIR[:REF], oci-archive:FILE[:REF], "
		"docker-archive:FILE[:REF]; or squashfs:FILE or rootfs:PATH, a plain directory. "
		"The exit status is the command's own; "
		"125: mlrun failed, 126: the command could not be executed, 127: it was not found.",
		&x);
	status = cli_exec_run(&x, NULL);
	cli_exec_done(&x);
	return status;
}
