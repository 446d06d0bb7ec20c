#include "cli/exec_options.h"

#include "cli/cli.h"
#include "cli/foreign.h"
#include "cli/options.h"

#include "rootfs/kept.h"
#include "work/service.h"

static struct exec_options *wishes(void *args)
{
	struct cli_exec *x = args;

	return &x->exec;
}

static const char *const pulls[] = { "missing", "always", "never", NULL };

static void parse_net(void *args, char *arg, struct argp_state *state)
{
	struct exec_options *o = wishes(args);

	o->no_network = strcmp(arg, "none") == 0;
	if (!o->no_network && strcmp(arg, "host") != 0)
		argp_error(state,
			"--net takes host or none, not '%s': a network of its own with a way out "
			"needs root",
			arg);
}

static const char *const ipcs[] = { "host", "private", NULL };

static void parse_pid(void *args, char *arg, struct argp_state *state)
{
	struct exec_options *o = wishes(args);

	o->pid = !arg || strcmp(arg, "private") == 0;
	if (!o->pid && strcmp(arg, "host") != 0)
		argp_error(state,
			"--pid takes private or host, not '%s'; --join PID enters a container that runs",
			arg);
}

static void parse_preserve(void *args, char *arg, struct argp_state *state)
{
	wishes(args)->preserve_fds = (int)options_number(arg, 0, 1 << 16);
	if (wishes(args)->preserve_fds < 0)
		argp_error(state,
			"--preserve-fds takes how many descriptors from 3 on to hand on, not '%s'; "
			"--preserve-fd takes their numbers",
			arg);
}

static void parse_mpi(void *args, char *arg, struct argp_state *state)
{
	struct exec_options *o = wishes(args);

	if (exec_mpi_read(arg, o) < 0)
		argp_error(state,
			"--mpi takes auto, none, host, host:major, host:full or host:strict, not '%s'",
			arg);
}

/* Parse docker-run(1)'s --gpus: "all", "device=0,2", quoted if it contains a comma. */
static void parse_gpus(void *args, char *arg, struct argp_state *state)
{
	char *s = arg + strspn(arg, "\"'");
	size_t n = strcspn(s, "\"'");

	if (strncmp(s, "device=", 7) == 0) {
		s += 7;
		n -= 7;
	} else if (n != 3 || strncmp(s, "all", 3) != 0) {
		argp_error(state,
			"--gpus takes all or device=LIST, not '%s': how many does not say which; --gpu=0,1 names "
			"them, --gpu=auto takes the job's, -e NVIDIA_DRIVER_CAPABILITIES=... what of the driver comes",
			arg);
	}
	if (n == 0 || s[n + strspn(s + n, "\"'")] || memchr(s, '=', n))
		argp_error(state,
			"--gpus '%s': use a list; -e NVIDIA_DRIVER_CAPABILITIES=... selects the parts of "
			"the driver",
			arg);
	s[n] = '\0';
	wishes(args)->gpu = s;
}

static void parse_join(void *args, char *arg, struct argp_state *state)
{
	struct cli_exec *x = args;

	x->exec.join = (pid_t)options_number(arg, 1, INT_MAX);
	x->join_name = x->exec.join < 0 ? arg : NULL;
	if (x->join_name && service_name_check(arg, NULL) < 0)
		argp_error(state,
			"--join takes a process id, a service's name or a step of Slurm's, not '%s'; "
			"mlrun ps lists containers",
			arg);
}

/* Is it JOB.STEP? */
static int is_step(const char *s)
{
	unsigned job, step;
	int n = 0;

	return sscanf(s, "%u.%u%n", &job, &step, &n) == 2 && !s[n];
}

/* The process in the container of a service, or of a job step. */
static void find_joined(struct cli_exec *x, struct argp_state *state)
{
	auto_store struct store *st = NULL;
	auto_call(service_done) struct service s = SERVICE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int r = cli_open_store(x->common.store, &st, &err);

	if (r == 0)
		r = service_get(st, x->join_name, &s, &err);
	if (r == -ENOENT && is_step(x->join_name)) {
		err = (struct mlr_error)MLR_ERROR_INIT;
		r = exec_find_step(x->join_name, &x->exec.join, &err);
		if (r == 0)
			return;
	}
	if (r == 0 && s.status != SERVICE_RUNNING) {
		r = mlr_fail(&err, ESRCH, "service '%s' does not run: it is %s", s.name,
			service_status_names[s.status]);
		mlr_hint(&err, "mlrun restart %s starts it again", s.name);
	}
	if (r < 0)
		exit(cli_fail_at(&err, "exec --join %s", x->join_name));
	x->exec.join = s.pid;
	x->join_env = service_path(st, s.name, "environ");
	x->exec.join_env = x->join_env;
}

static void parse_explain(void *args, char *arg, struct argp_state *state)
{
	struct cli_exec *x = args;

	x->explain = arg ? CLI_EXPLAIN_JSON : CLI_EXPLAIN_TEXT;
	if (arg && strcmp(arg, "json") != 0)
		argp_error(state, "--explain is for people, --explain=json for programs, not '%s'",
			arg);
}

static void parse_write(void *args, char *arg, struct argp_state *state)
{
	wishes(args)->write = arg ? arg : "";
	if (arg && !*arg)
		argp_error(state, "--write=NAME: the name is empty");
}

static const char *const writes[] = { "new", "running", NULL };

/* The image ends mlrun's options; the rest is the contained command's. With --join there is no
 * image. */
static void take_image(void *args, char *image, struct argp_state *state)
{
	struct exec_options *o = wishes(args);

	/* Docker's "--pid host" as two words. */
	if ((strcmp(image, "host") == 0 || strcmp(image, "private") == 0) &&
		strcmp(state->argv[state->next - 2], "--pid") == 0) {
		parse_pid(args, image, state);
		return;
	}
	if (!o->join)
		o->image = image;
	o->command = state->argv + state->next - (o->join ? 1 : 0);
	if (!o->join && *o->command && strcmp(*o->command, "--") == 0)
		o->command++;
	state->next = state->argc;
}

/* "container:NAME" is --write=NAME with the container's own image. */
static void take_container(struct exec_options *o, struct argp_state *state)
{
	const char *name = o->image ? rootfs_kept_of(o->image) : NULL;

	if (!name)
		return;
	if (o->write && strcmp(o->write, name) != 0)
		argp_error(state, "'%s' and --write='%s' are two containers", o->image, o->write);
	o->write = name;
}

static void check(void *args, struct argp_state *state)
{
	struct cli_exec *x = args;

	if (!x->exec.join && !x->exec.image)
		argp_error(state, "%s is missing", x->operand ? x->operand : "an image");
	if (x->exec.join && !x->exec.command && !x->command_optional)
		argp_error(state, "a command is missing");
	x->image_place = x->exec.image ? cli_image_in_file(x->exec.image) : NULL;
	if (x->image_place) {
		x->image_word = x->image_word ? x->image_word : x->exec.image;
		x->exec.image = x->image_place;
	}
	x->exec.store = x->common.store;
	if (x->join_name)
		find_joined(x, state);
	take_container(&x->exec, state);
}

/* The target of an option that fills a field of struct exec_options. */
#define WISH(field) OPT(struct cli_exec, exec.field)

static const struct option_row options[] = {
	{ NULL, 0, NULL, 0, "Files:", 1 },
	{ "volume", 'v', "SRC[:DST[:FLAGS]]", 0,
		"mount a host directory or file (flags: ro, rw, nosuid, nodev, noexec, O)", 1,
		WISH(volumes) },
	{ "mount", 0, "SPEC", 0,
		"a mount as in docker run: type=bind|tmpfs|overlay,src=SRC,dst=DST[,ro]...", 1,
		WISH(mounts) },
	{ "tmpfs", 0, "DST[:OPTIONS]", 0,
		"an empty directory in memory (options: size=1g, mode=700, ro, noexec)", 1,
		WISH(tmpfs) },
	{ "device", 0, "DEV[:DST]", 0,
		"add a device of the host, /dev/kvm, or of a CDI file, nvidia.com/gpu=0", 1,
		WISH(devices) },
	{ "gpu", 0, "auto|all|none|LIST", 0,
		"GPUs: as image and job have them (default), all, none, or by number, UUID or bus id",
		1, WISH(gpu) },
	{ "gpus", 0, "all|device=LIST", OPTION_HIDDEN, NULL, 1, OPT_CALL(parse_gpus) },
	{ "workdir", 'w', "DIR", 0, "start in DIR (default: the caller's working directory)", 1,
		WISH(workdir) },
	{ "home", 0, NULL, 0, "mount the home directory", 1,
		OPT_VALUE(struct cli_exec, exec.home, EXEC_YES) },
	{ "no-home", 0, NULL, 0, "do not mount the home directory (default)", 1,
		OPT_VALUE(struct cli_exec, exec.home, EXEC_NO) },
	{ "read-only", 0, NULL, 0, "make the root read-only", 1, WISH(read_only) },
	{ "write", 0, "NAME", OPTION_ARG_OPTIONAL,
		"keep changes in the container NAME (default: named like the image)", 1,
		OPT_CALL(parse_write) },

	{ "until-job-ends", 0, NULL, 0, "with --write: the container ends with the job", 1,
		WISH(until_job_ends) },
	{ "write-if", 0, "new|running", 0,
		"with --write: fail if the container exists, or if it does not run", 1,
		OPT_WORD_FROM(struct cli_exec, exec.write_if, writes, ROOTFS_KEPT_NEW) },
	{ "save", 0, "FILE", 0,
		"when the last command in the container has ended, write its root to FILE, a squashfs "
		"file",
		1, OPT(struct cli_exec, save) },

	{ NULL, 0, NULL, 0, "Environment:", 2 },
	{ "env", 'e', "K[=V]", 0, "set a variable; without =V it takes the caller's value", 2,
		WISH(env) },
	{ "env-file", 0, "FILE", 0, "read variables from FILE, K=V or K a line", 2,
		WISH(env_files) },
	{ "unset-env", 0, "GLOB", 0,
		"omit the caller's and the image's variables of matching names", 2,
		WISH(unset_env) },
	{ "clearenv", 0, NULL, 0, "pass on only the caller's variables of batch systems and MPI", 2,
		WISH(clearenv) },

	{ NULL, 0, NULL, 0, "Identity, limits and isolation:", 3 },
	{ "user", 'u', "UID[:GID]", 0, "appear with this id inside; files stay the caller's", 3,
		WISH(user) },
	{ "fakeroot", 0, NULL, 0, "appear as root inside, with the caller's rights on files", 3,
		WISH(fakeroot) },
	{ "seccomp", 0, "FILE", 0, "forbid system calls as an OCI profile says", 3, WISH(seccomp) },
	{ "cap-drop", 0, "NAME", 0, "drop a capability of --fakeroot, or ALL", 3, WISH(cap_drop) },
	{ "ulimit", 0, "NAME=SOFT[:HARD]", 0, "set a limit: nofile, core, stack...", 3,
		WISH(ulimits) },
	{ "cpus", 0, "N", 0, "use at most N processors' time, 1.5", 3, WISH(cpus) },
	{ "memory", 'm', "SIZE", 0, "use at most SIZE of memory, 4g", 3, WISH(memory) },
	{ "hostname", 0, "NAME", 0, "a host name of the container's own", 3, WISH(hostname) },
	{ "net", 0, "host|none", 0, "the host's network (default), or none", 3,
		OPT_CALL(parse_net) },
	{ "network", 0, NULL, OPTION_ALIAS, NULL, 3 },
	{ "ipc", 0, "host|private", 0, "the host's shared memory and queues (default), or own ones",
		3, OPT_WORD(struct cli_exec, exec.ipc, ipcs) },
	{ "pid", 0, "private|host", OPTION_ARG_OPTIONAL,
		"own process ids: only the container's processes are seen", 3,
		OPT_CALL(parse_pid) },
	{ "init", 0, NULL, 0, "--pid, and the first process is mlrun's, which reaps the others", 3,
		WISH(init) },
	{ "preserve-fds", 0, "N", 0, "pass on N descriptors from 3 on", 3,
		OPT_CALL(parse_preserve) },
	{ "preserve-fd", 0, "FD[,FD]...", 0, "pass on these descriptors", 3, WISH(keep_fds) },

	{ NULL, 0, NULL, 0, "Starting:", 4 },
	{ "entrypoint", 0, "CMD", 0, "run CMD in place of the image's Entrypoint; '' for none", 4,
		WISH(entrypoint) },
	{ "pull", 0, "WHEN", 0,
		"fetch the image when it is missing (default), always look for a newer one, never",
		4, OPT_WORD_FROM(struct cli_exec, exec.pull, pulls, EXEC_PULL_MISSING) },
	{ "mpi", 0, "auto|none|host[:LEVEL]", 0,
		"let ranks of a job step share one container on a node (default), or not; host: with "
		"the machine's MPI in place of the image's",
		4, OPT_CALL(parse_mpi) },
	{ "join-tag", 0, "WORD", 0,
		"share one container with all on this node that give the same WORD", 4,
		WISH(join_tag) },
	{ "join", 0, "PID|NAME|STEP", 0,
		"run a command in the container of that process, service or step of Slurm's (JOB.STEP), without IMAGE",
		4, OPT_CALL(parse_join) },
	{ "explain", 0, "json", OPTION_ARG_OPTIONAL,
		"print every mount and variable with its origin; run nothing", 4,
		OPT_CALL(parse_explain) },
	/* The plugin of Slurm gives it, and the command apptainer gives it and the next ones. */
	{ "dialect", 0, "pyxis", OPTION_HIDDEN, NULL, 4,
		OPT_WORD(struct cli_exec, exec.dialect, exec_dialect_names) },
	{ "script", 0, "PATH", OPTION_HIDDEN, NULL, 4, WISH(script) },
	{ "expand-env", 0, "K=V", OPTION_HIDDEN, NULL, 4, WISH(expand_env) },
	{ "home-place", 0, "SRC[:DST]", OPTION_HIDDEN, NULL, 4, WISH(home_place) },
	{ "kept-in", 0, "DIR", OPTION_HIDDEN, NULL, 4, WISH(overlays) },
	{ "without", 0, "PATH", OPTION_HIDDEN, NULL, 4, WISH(without) },
	{ "in-place", 0, NULL, OPTION_HIDDEN, NULL, 4, WISH(in_place) },
	{ "quiet", 'q', NULL, OPTION_HIDDEN, NULL, 4, OPT_CALL(cli_options_be_quiet) },
	/* A service's supervisor gives it, for --join NAME. */
	{ "env-out", 0, "FILE", OPTION_HIDDEN, NULL, 4, OPT(struct cli_exec, env_out) },
	/* Docker users type these; mlrun leaves nothing behind and passes on its terminal
	 * anyway. */
	{ "rm", 0, NULL, OPTION_HIDDEN, NULL, 4, OPT(struct cli_exec, rm) },
	{ "name", 0, "NAME", OPTION_HIDDEN, NULL, 4, OPT(struct cli_exec, name) },
	{ "interactive", 'i', NULL, OPTION_HIDDEN, NULL, 4 },
	{ "tty", 't', NULL, OPTION_HIDDEN, NULL, 4 },
	{ 0 },
};

static struct cli_syntax syntax_of(
	const struct option_row *first, const char *args_doc, const char *doc)
{
	return (struct cli_syntax){ .s.options = first,
		.s.shared = { { options, 0 } },
		.s.args_doc = args_doc,
		.s.doc = doc,
		.s.in_order = 1,
		.s.operands = { OPT_CALL(take_image) },
		.s.check = check };
}

void cli_exec_parse(
	int argc, char **argv, const char *args_doc, const char *doc, struct cli_exec *ret)
{
	const struct cli_syntax syntax = syntax_of(NULL, args_doc, doc);

	ret->argv = argv;
	cli_options_parse(argc, argv, &syntax, ret);
	if (ret->name && !ret->rm)
		foreign_option(argv[0], "--name", NULL, NULL);
}

void cli_exec_parse_with(int argc, char **argv, const struct option_row *own,
	void (*seen)(void *args, const char *name, const char *arg), const char *args_doc,
	const char *doc, struct cli_exec *ret)
{
	struct cli_syntax syntax = syntax_of(own, args_doc, doc);

	syntax.s.seen = seen;
	syntax.s.given = offsetof(struct cli_exec, given);
	ret->argv = argv;
	cli_options_parse(argc, argv, &syntax, ret);
}

void cli_exec_keep(const char *name, const char *arg, struct strv *words, struct strv *env)
{
	if (strcmp(name, "env") == 0)
		strv_add(env, arg);
	else if (arg)
		strv_addf(words, "--%s=%s", name, arg);
	else
		strv_addf(words, "--%s", name);
}

void cli_exec_words(
	struct strv *ret, const char *store, const struct strv *words, const struct strv *env)
{
	strv_add(ret, "exec");
	if (store)
		strv_addf(ret, "--store=%s", store);
	strv_add_all(ret, words);
	for (size_t i = 0; env && i < env->n; i++)
		strv_addf(ret, "--env=%s", env->v[i]);
}
