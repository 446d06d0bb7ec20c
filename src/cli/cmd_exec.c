/* mlrun exec (alias run): options in, the command's own exit status out. */
#include "cli/cli.h"
#include "cli/common.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_CLEARENV = 256,
	OPT_ENTRYPOINT,
	OPT_ENV_FILE,
	OPT_EXPLAIN,
	OPT_FAKEROOT,
	OPT_HOME,
	OPT_INIT,
	OPT_JOIN,
	OPT_JOIN_TAG,
	OPT_MPI,
	OPT_NO_HOME,
	OPT_PID,
	OPT_READ_ONLY,
	OPT_RM,
	OPT_STORE,
	OPT_VERBOSE,
};

static const struct argp_option options[] = {
	{ "volume", 'v', "SRC[:DST[:FLAGS]]", 0,
		"mount a host directory or file (flags: ro, rw, nosuid, nodev, noexec)" },
	{ "workdir", 'w', "DIR", 0, "start in DIR (default: the caller's working directory)" },
	{ "env", 'e', "K[=V]", 0, "set a variable; without =V it takes the caller's value" },
	{ "env-file", OPT_ENV_FILE, "FILE", 0, "read variables from FILE, K=V or K a line" },
	{ "clearenv", OPT_CLEARENV, NULL, 0,
		"do not pass on the caller's variables, but Slurm's and MPI's" },
	{ "read-only", OPT_READ_ONLY, NULL, 0, "a root that cannot be written to" },
	{ "entrypoint", OPT_ENTRYPOINT, "CMD", 0,
		"run CMD in place of the image's Entrypoint; '' for none" },
	{ "fakeroot", OPT_FAKEROOT, NULL, 0,
		"appear as root inside, with the caller's rights on files" },
	{ "home", OPT_HOME, NULL, 0, "mount the home directory" },
	{ "no-home", OPT_NO_HOME, NULL, 0, "do not mount the home directory (default)" },
	{ "pid", OPT_PID, NULL, 0, "a PID namespace of its own: only the container's processes are seen" },
	{ "init", OPT_INIT, NULL, 0, "the same, and its first process is mlrun's, which reaps the others" },
	{ "mpi", OPT_MPI, "HOW", 0,
		"auto (default): ranks of a job step share one container on a node; none: they do not" },
	{ "join-tag", OPT_JOIN_TAG, "WORD", 0,
		"share one container on this node with all that say the same WORD" },
	{ "join", OPT_JOIN, "PID", 0, "run the command in the container of that process, without IMAGE" },
	{ "explain", OPT_EXPLAIN, NULL, 0,
		"tell every mount and variable with its origin; run nothing" },
	{ "store", OPT_STORE, "DIR", 0,
		"the store to use (default: $MLRUN_STORE or ~/.local/share/mlrun)" },
	{ "verbose", OPT_VERBOSE, NULL, 0, "say what is done" },
	{ "rm", OPT_RM, NULL, OPTION_HIDDEN, NULL },
	{ "interactive", 'i', NULL, OPTION_HIDDEN, NULL },
	{ "tty", 't', NULL, OPTION_HIDDEN, NULL },
	{ 0 },
};

struct arguments {
	struct exec_options exec;
	int explain;
};

static enum exec_mpi parse_mpi(const char *arg, struct argp_state *state)
{
	if (strcmp(arg, "none") == 0)
		return EXEC_MPI_NONE;
	if (strcmp(arg, "host") == 0)
		argp_error(state, "--mpi=host: the host's MPI is not brought into images; an image's own "
			"works by --mpi=auto, its PMIx talking to the launcher's, or mount the host's: -v DIR");
	else if (strcmp(arg, "auto") != 0)
		argp_error(state, "--mpi=%s: auto or none is wanted", arg);
	return EXEC_MPI_AUTO;
}

static pid_t parse_pid(const char *arg, struct argp_state *state)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (!*arg || *end || pid <= 0 || pid > INT32_MAX)
		argp_error(state, "--join: '%s' is no process id; mlrun ps lists those of containers", arg);
	return (pid_t)pid;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	struct exec_options *o = &a->exec;

	switch (key) {
	case 'v':
		strv_add(&o->volumes, arg);
		break;
	case 'w':
		o->workdir = arg;
		break;
	case 'e':
		strv_add(&o->env, arg);
		break;
	case OPT_ENV_FILE:
		strv_add(&o->env_files, arg);
		break;
	case OPT_CLEARENV:
		o->clearenv = 1;
		break;
	case OPT_READ_ONLY:
		o->read_only = 1;
		break;
	case OPT_ENTRYPOINT:
		o->entrypoint = arg;
		break;
	case OPT_FAKEROOT:
		o->fakeroot = 1;
		break;
	case OPT_HOME:
		o->home = EXEC_YES;
		break;
	case OPT_NO_HOME:
		o->home = EXEC_NO;
		break;
	case OPT_PID:
		o->pid = 1;
		break;
	case OPT_INIT:
		o->init = 1;
		break;
	case OPT_MPI:
		o->mpi = parse_mpi(arg, state);
		break;
	case OPT_JOIN_TAG:
		o->join_tag = arg;
		break;
	case OPT_JOIN:
		o->join = parse_pid(arg, state);
		break;
	case OPT_EXPLAIN:
		a->explain = 1;
		break;
	case OPT_STORE:
		o->store = arg;
		break;
	case OPT_VERBOSE:
		mlr_log_level = MLR_DEBUG;
		break;
	/* As Docker users type them; mlrun leaves nothing behind and hands its terminal on anyway.
	 */
	case OPT_RM:
	case 'i':
	case 't':
		break;
	case ARGP_KEY_ARG:
		/* The image ends our options: the rest is the contained command's. */
		if (!o->join)
			o->image = arg;
		o->command = state->argv + state->next - (o->join ? 1 : 0);
		if (*o->command && (*o->command)[0] == '-' && (*o->command)[1] == '-' &&
			!(*o->command)[2])
			o->command++;
		state->next = state->argc;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, o->join ? "a command is missing" : "an image is missing");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "IMAGE [--] [COMMAND [ARG...]]",
	.doc = "Run a command in an image, with the caller's own rights and files.\v"
	       "IMAGE is [docker://]NAME[:TAG][@DIGEST] or rootfs:PATH. The exit status is the command's own; "
	       "125: mlrun failed, 126: the command could not be executed, 127: it was not found.",
};

static int enter_and_exec(const struct plan *p)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	r = runtime_enter(p, &err);
	if (r < 0) {
		mlr_wrap(&err, "exec '%s'", p->image);
		return cli_fail(&err);
	}
	r = runtime_exec(p, &err);
	mlr_wrap(&err, "exec '%s'", p->image);
	cli_fail(&err);
	return r == -ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

static int run(const struct arguments *a)
{
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;

	plan_init(&p);
	if (exec_plan(&a->exec, !a->explain, &p, &err) < 0)
		return cli_fail(&err);
	if (a->explain) {
		plan_print(&p, stdout);
		return 0;
	}
	for (size_t i = 0; i < p.notes.n; i++)
		mlr_info("%s", p.notes.v[i]);
	return enter_and_exec(&p);
}

int cmd_exec(int argc, char **argv)
{
	struct arguments a = { 0 };
	int status;

	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &a);
	status = run(&a);
	strv_done(&a.exec.volumes);
	strv_done(&a.exec.env);
	strv_done(&a.exec.env_files);
	return status;
}
