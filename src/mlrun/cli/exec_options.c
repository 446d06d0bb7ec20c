#include "cli/exec_options.h"

#include "cli/cli.h"
#include "cli/unknown_option.h"

#include "base/memory.h"

#include <argp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_CAP_DROP = CLI_KEYS,
	OPT_CLEARENV,
	OPT_CPUS,
	OPT_DEVICE,
	OPT_ENTRYPOINT,
	OPT_ENV_FILE,
	OPT_EXPLAIN,
	OPT_FAKEROOT,
	OPT_GPU,
	OPT_GPUS,
	OPT_HOME,
	OPT_HOSTNAME,
	OPT_INIT,
	OPT_IPC,
	OPT_JOIN,
	OPT_JOIN_TAG,
	OPT_MOUNT,
	OPT_MPI,
	OPT_NET,
	OPT_NO_HOME,
	OPT_PID,
	OPT_PRESERVE_FD,
	OPT_PRESERVE_FDS,
	OPT_PULL,
	OPT_READ_ONLY,
	OPT_RM,
	OPT_SECCOMP,
	OPT_TMPFS,
	OPT_ULIMIT,
	OPT_UNSET_ENV,
	OPT_WRITE,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Files:", 1 },
	{ "volume", 'v', "SRC[:DST[:FLAGS]]", 0,
		"mount a host directory or file (flags: ro, rw, nosuid, nodev, noexec, O)", 1 },
	{ "mount", OPT_MOUNT, "SPEC", 0,
		"a mount in words: type=bind|tmpfs|overlay,src=SRC,dst=DST[,ro]...", 1 },
	{ "tmpfs", OPT_TMPFS, "DST[:OPTIONS]", 0,
		"an empty directory in memory (options: size=1g, mode=700, ro, noexec)", 1 },
	{ "device", OPT_DEVICE, "DEV[:DST]", 0,
		"bring in a device of the host's, /dev/kvm, or of a vendor's file, nvidia.com/gpu=0",
		1 },
	{ "gpu", OPT_GPU, "auto|all|none|LIST", 0,
		"GPUs: as image and job have them (default), all, none, or by number, UUID or bus id",
		1 },
	{ "gpus", OPT_GPUS, "all|device=LIST", OPTION_HIDDEN, NULL, 1 },
	{ "workdir", 'w', "DIR", 0, "start in DIR (default: the caller's working directory)", 1 },
	{ "home", OPT_HOME, NULL, 0, "mount the home directory", 1 },
	{ "no-home", OPT_NO_HOME, NULL, 0, "do not mount the home directory (default)", 1 },
	{ "read-only", OPT_READ_ONLY, NULL, 0, "a root that cannot be written to", 1 },
	{ "write", OPT_WRITE, "NAME", OPTION_ARG_OPTIONAL,
		"keep what is written, in the container NAME (default: named like the image)", 1 },

	{ NULL, 0, NULL, 0, "Environment:", 2 },
	{ "env", 'e', "K[=V]", 0, "set a variable; without =V it takes the caller's value", 2 },
	{ "env-file", OPT_ENV_FILE, "FILE", 0, "read variables from FILE, K=V or K a line", 2 },
	{ "unset-env", OPT_UNSET_ENV, "GLOB", 0,
		"leave out the caller's and the image's variables of such names", 2 },
	{ "clearenv", OPT_CLEARENV, NULL, 0,
		"do not pass on the caller's variables, but Slurm's and MPI's", 2 },

	{ NULL, 0, NULL, 0, "Identity, limits and isolation:", 3 },
	{ "user", 'u', "UID[:GID]", 0, "appear with this id inside; files stay the caller's", 3 },
	{ "fakeroot", OPT_FAKEROOT, NULL, 0,
		"appear as root inside, with the caller's rights on files", 3 },
	{ "seccomp", OPT_SECCOMP, "FILE", 0, "forbid system calls as an OCI profile says", 3 },
	{ "cap-drop", OPT_CAP_DROP, "NAME", 0, "leave --fakeroot without a capability; ALL", 3 },
	{ "ulimit", OPT_ULIMIT, "NAME=SOFT[:HARD]", 0, "set a limit: nofile, core, stack...", 3 },
	{ "cpus", OPT_CPUS, "N", 0, "use at most N processors' time, 1.5", 3 },
	{ "memory", 'm', "SIZE", 0, "use at most SIZE of memory, 4g", 3 },
	{ "hostname", OPT_HOSTNAME, "NAME", 0, "a host name of the container's own", 3 },
	{ "net", OPT_NET, "host|none", 0, "the host's network (default), or none", 3 },
	{ "network", OPT_NET, NULL, OPTION_ALIAS, NULL, 3 },
	{ "ipc", OPT_IPC, "host|private", 0,
		"the host's shared memory and queues (default), or own ones", 3 },
	{ "pid", OPT_PID, "private|host", OPTION_ARG_OPTIONAL,
		"own process ids: only the container's processes are seen", 3 },
	{ "init", OPT_INIT, NULL, 0,
		"--pid, and the first process is mlrun's, which reaps the others", 3 },
	{ "preserve-fds", OPT_PRESERVE_FDS, "N", 0, "hand on N descriptors from 3 on", 3 },
	{ "preserve-fd", OPT_PRESERVE_FD, "FD[,FD]...", 0, "hand on these descriptors", 3 },

	{ NULL, 0, NULL, 0, "Starting:", 4 },
	{ "entrypoint", OPT_ENTRYPOINT, "CMD", 0,
		"run CMD in place of the image's Entrypoint; '' for none", 4 },
	{ "pull", OPT_PULL, "WHEN", 0,
		"fetch the image when it is missing (default), always look for a newer one, never",
		4 },
	{ "mpi", OPT_MPI, "auto|none", 0,
		"let ranks of a job step share one container on a node (default), or not", 4 },
	{ "join-tag", OPT_JOIN_TAG, "WORD", 0,
		"share one container with all on this node that give the same WORD", 4 },
	{ "join", OPT_JOIN, "PID", 0,
		"run a command in the container of that process; no IMAGE is given", 4 },
	{ "explain", OPT_EXPLAIN, "json", OPTION_ARG_OPTIONAL,
		"tell every mount and variable with its origin; run nothing", 4 },
	{ "quiet", 'q', NULL, OPTION_HIDDEN, NULL, 4 },
	{ "rm", OPT_RM, NULL, OPTION_HIDDEN, NULL, 4 },
	{ "interactive", 'i', NULL, OPTION_HIDDEN, NULL, 4 },
	{ "tty", 't', NULL, OPTION_HIDDEN, NULL, 4 },
	{ 0 },
};

static void parse_pull(struct exec_options *o, const char *arg, struct argp_state *state)
{
	o->pull = strcmp(arg, "missing") == 0 ? EXEC_PULL_MISSING
		: strcmp(arg, "always") == 0  ? EXEC_PULL_ALWAYS
		: strcmp(arg, "never") == 0   ? EXEC_PULL_NEVER
					      : EXEC_PULL_UNSET;
	if (o->pull == EXEC_PULL_UNSET)
		argp_error(state, "--pull takes missing, always or never, not '%s'", arg);
}

static void parse_net(struct exec_options *o, const char *arg, struct argp_state *state)
{
	o->no_network = strcmp(arg, "none") == 0;
	if (!o->no_network && strcmp(arg, "host") != 0)
		argp_error(state,
			"--net takes host or none, not '%s': a network of its own with a way out "
			"needs root",
			arg);
}

static void parse_ipc(struct exec_options *o, const char *arg, struct argp_state *state)
{
	o->ipc = strcmp(arg, "private") == 0;
	if (!o->ipc && strcmp(arg, "host") != 0)
		argp_error(state, "--ipc takes host or private, not '%s'", arg);
}

static void parse_pid(struct exec_options *o, const char *arg, struct argp_state *state)
{
	o->pid = !arg || strcmp(arg, "private") == 0;
	if (!o->pid && strcmp(arg, "host") != 0)
		argp_error(state,
			"--pid takes private or host, not '%s'; --join PID enters a container that runs",
			arg);
}

static void parse_preserve(struct exec_options *o, const char *arg, struct argp_state *state)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (end == arg || *end || n < 0 || n > 1 << 16)
		argp_error(state,
			"--preserve-fds takes how many descriptors from 3 on to hand on, not '%s'; "
			"--preserve-fd takes their numbers",
			arg);
	o->preserve_fds = (int)n;
}

static void parse_mpi(struct exec_options *o, const char *arg, struct argp_state *state)
{
	o->mpi = strcmp(arg, "none") == 0 ? EXEC_MPI_NONE : EXEC_MPI_AUTO;
	if (strcmp(arg, "host") == 0)
		argp_error(state,
			"--mpi=host: the host's MPI is not brought into images; the image's own works with "
			"--mpi=auto, as long as it speaks the launcher's PMI (srun --mpi=pmix, mpirun)");
	else if (o->mpi == EXEC_MPI_AUTO && strcmp(arg, "auto") != 0)
		argp_error(state, "--mpi takes auto or none, not '%s'", arg);
}

/* docker-run(1)'s word: "all", "device=0,2", with quotes around it where a comma is in it. */
static void parse_gpus(struct cli_exec *x, const char *arg, struct argp_state *state)
{
	const char *s = arg + strspn(arg, "\"'");
	size_t n = strcspn(s, "\"'");

	if (strncmp(s, "device=", 7) == 0) {
		s += 7;
		n -= 7;
	} else if (n != 3 || strncmp(s, "all", 3) != 0) {
		argp_error(state,
			"--gpus takes all or device=LIST, not '%s': how many does not say which; --gpu=0,1 names "
			"them, --gpu=auto takes the job's, -e NVIDIA_DRIVER_CAPABILITIES=... what of the driver comes",
			arg);
		return;
	}
	if (n == 0 || s[n + strspn(s + n, "\"'")] || memchr(s, '=', n)) {
		argp_error(state,
			"--gpus '%s': nothing but a list can be given; -e NVIDIA_DRIVER_CAPABILITIES=... says what of "
			"the driver comes",
			arg);
		return;
	}
	free(x->gpus);
	x->gpus = xstrndup(s, n);
	x->exec.gpu = x->gpus;
}

static void parse_join(struct exec_options *o, const char *arg, struct argp_state *state)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (end == arg || *end || pid <= 0 || pid > INT_MAX)
		argp_error(state, "--join takes a process id, not '%s'; mlrun ps lists containers",
			arg);
	o->join = (pid_t)pid;
}

/* What holds a list or one word, by its key. */
static struct strv *list_of(struct exec_options *o, int key)
{
	switch (key) {
	case 'v':
		return &o->volumes;
	case 'e':
		return &o->env;
	case OPT_CAP_DROP:
		return &o->cap_drop;
	case OPT_DEVICE:
		return &o->devices;
	case OPT_ENV_FILE:
		return &o->env_files;
	case OPT_MOUNT:
		return &o->mounts;
	case OPT_PRESERVE_FD:
		return &o->keep_fds;
	case OPT_TMPFS:
		return &o->tmpfs;
	case OPT_ULIMIT:
		return &o->ulimits;
	case OPT_UNSET_ENV:
		return &o->unset_env;
	default:
		return NULL;
	}
}

static const char **word_of(struct exec_options *o, int key)
{
	switch (key) {
	case 'm':
		return &o->memory;
	case 'u':
		return &o->user;
	case 'w':
		return &o->workdir;
	case OPT_CPUS:
		return &o->cpus;
	case OPT_ENTRYPOINT:
		return &o->entrypoint;
	case OPT_GPU:
		return &o->gpu;
	case OPT_HOSTNAME:
		return &o->hostname;
	case OPT_JOIN_TAG:
		return &o->join_tag;
	case OPT_SECCOMP:
		return &o->seccomp;
	default:
		return NULL;
	}
}

static void parse_explain(struct cli_exec *x, const char *arg, struct argp_state *state)
{
	x->explain = cli_explain_parse(arg);
	if (x->explain == CLI_EXPLAIN_NO)
		argp_error(state, "--explain is for people, --explain=json for programs, not '%s'",
			arg);
}

/* What is on or off. */
static int *switch_of(struct cli_exec *x, int key)
{
	switch (key) {
	case OPT_CLEARENV:
		return &x->exec.clearenv;
	case OPT_FAKEROOT:
		return &x->exec.fakeroot;
	case OPT_INIT:
		return &x->exec.init;
	case OPT_READ_ONLY:
		return &x->exec.read_only;
	default:
		return NULL;
	}
}

/* The image ends our options: the rest is the contained command's. With --join there is none. */
static void take_image(struct exec_options *o, char *image, struct argp_state *state)
{
	/* Docker's "--pid host" in two words. */
	if ((strcmp(image, "host") == 0 || strcmp(image, "private") == 0) &&
		strcmp(state->argv[state->next - 2], "--pid") == 0) {
		parse_pid(o, image, state);
		return;
	}
	if (!o->join)
		o->image = image;
	o->command = state->argv + state->next - (o->join ? 1 : 0);
	if (!o->join && *o->command && strcmp(*o->command, "--") == 0)
		o->command++;
	state->next = state->argc;
}

static error_t parse_choice(struct cli_exec *x, int key, char *arg, struct argp_state *state)
{
	struct exec_options *o = &x->exec;

	switch (key) {
	case OPT_EXPLAIN:
		parse_explain(x, arg, state);
		return 0;
	case OPT_HOME:
	case OPT_NO_HOME:
		o->home = key == OPT_HOME ? EXEC_YES : EXEC_NO;
		return 0;
	case OPT_GPUS:
		parse_gpus(x, arg, state);
		return 0;
	case OPT_JOIN:
		parse_join(o, arg, state);
		return 0;
	case OPT_MPI:
		parse_mpi(o, arg, state);
		return 0;
	case OPT_IPC:
		parse_ipc(o, arg, state);
		return 0;
	case OPT_NET:
		parse_net(o, arg, state);
		return 0;
	case OPT_PID:
		parse_pid(o, arg, state);
		return 0;
	case OPT_PRESERVE_FDS:
		parse_preserve(o, arg, state);
		return 0;
	case OPT_PULL:
		parse_pull(o, arg, state);
		return 0;
	case OPT_WRITE:
		o->write = arg ? arg : "";
		if (arg && !*arg)
			argp_error(state, "--write=NAME: the name is empty");
		return 0;
	case 'q':
		cli_be_quiet();
		return 0;
	/* As Docker users type them; mlrun leaves nothing behind and hands its terminal on
	 * anyway. */
	case OPT_RM:
	case 'i':
	case 't':
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct cli_exec *x = state->input;
	struct strv *list = list_of(&x->exec, key);
	const char **word = word_of(&x->exec, key);
	int *on = switch_of(x, key);

	if (list) {
		strv_add(list, arg);
		return 0;
	}
	if (word) {
		*word = arg;
		return 0;
	}
	if (on) {
		*on = 1;
		return 0;
	}
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &x->common;
		return 0;
	case ARGP_KEY_ARG:
		take_image(&x->exec, arg, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!x->exec.join)
			argp_error(state, "an image is missing");
		else if (!x->command_optional)
			argp_error(state, "a command is missing");
		return 0;
	case ARGP_KEY_SUCCESS:
		x->exec.store = x->common.store;
		return 0;
	default:
		return parse_choice(x, key, arg, state);
	}
}

void cli_exec_parse(
	int argc, char **argv, const char *args_doc, const char *doc, struct cli_exec *ret)
{
	const struct argp argp = { .options = options,
		.parser = parse_option,
		.args_doc = args_doc,
		.doc = doc,
		.children = cli_common_children };

	unknown_option_check(&argc, argv, options, cli_common_argp.options);
	cli_parse(&argp, argc, argv, ARGP_IN_ORDER, ret);
}

void cli_exec_done(struct cli_exec *x)
{
	struct exec_options *o = &x->exec;

	strv_done(&o->volumes);
	strv_done(&o->mounts);
	strv_done(&o->tmpfs);
	strv_done(&o->devices);
	strv_done(&o->env);
	strv_done(&o->env_files);
	strv_done(&o->unset_env);
	strv_done(&o->keep_fds);
	strv_done(&o->cap_drop);
	strv_done(&o->ulimits);
	free(x->gpus);
}
