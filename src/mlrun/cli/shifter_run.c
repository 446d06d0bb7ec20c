/*
 * Run a command in an image by Shifter's options, for both of Shifter's command lines
 * (cmd_shifter.c).
 */
#include "cli/shifter.h"

#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/exec_options.h"
#include "cli/options.h"

#include "base/spawn.h"
#include "oci/digest.h"
#include "runtime/runtime.h"
#include "shifter/image.h"
#include "shifter/module.h"
#include "shifter/volume.h"

#include <argp.h>

struct args {
	struct cli_exec x;
	const char *image; /* [TYPE:]NAME */
	int is_run;        /* `shifter run`: the first operand is the image */
	struct strv volumes, mounts, modules;
	const char *entrypoint;
	int has_entrypoint;
};

/* Values that the container's process still needs after the options. */
static struct {
	const char *request; /* the image as asked for */
	const char *name;    /* mlrun's name for it */
	struct udiroot site;
	struct strv modules;
	int wants_shell;
	char **argv; /* the whole command line */
} run;

/* --- options -------------------------------------------------------------------- */

static void take_env(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	const char *equals = strchr(arg, '=');

	if (!equals || equals == arg)
		argp_error(state, "--env takes NAME=VALUE, not '%s'", arg);
	strv_add(&a->x.exec.env, arg);
}

static void take_workdir(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->x.exec.workdir = arg ? arg : "";
}

static void take_entrypoint(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->has_entrypoint = 1;
	a->entrypoint = arg;
}

static void take_mpi(void *args, char *arg, struct argp_state *state)
{
	strv_add(&((struct args *)args)->modules, "mpich");
}

static void take_explain(void *args, char *arg, struct argp_state *state)
{
	((struct args *)args)->x.explain = CLI_EXPLAIN_TEXT;
}

static void print_help(void *args, char *arg, struct argp_state *state)
{
	argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
}

static void take_operands(void *args, char *word, struct argp_state *state)
{
	struct args *a = args;

	if (a->is_run && !a->image) {
		a->image = word;
		a->x.exec.command = state->argv + state->next;
	} else {
		a->x.exec.command = state->argv + state->next - 1;
	}
	state->next = state->argc;
}

#define EXEC(field) OPT(struct args, x.exec.field)

static const struct option_row options[] = {
	{ "image", 'i', "[TYPE:]NAME", 0, "the image: docker:NAME[:TAG], id:DIGEST, local:/DIR", 0,
		OPT(struct args, image) },
	{ "volume", 'V', "FROM:TO[:FLAG]", 0,
		"mount a directory (flags: ro, perNodeCache=size=SIZE)", 0,
		OPT(struct args, volumes) },
	{ "mount", 0, "SPEC", 0, "type=bind,source=A,destination=B or type=per-node-cache,...", 0,
		OPT(struct args, mounts) },
	{ "env", 'e', "NAME=VALUE", 0, "set a variable", 0, OPT_CALL(take_env) },
	{ "env-file", 0, "FILE", 0, "read variables from FILE, NAME=VALUE a line", 0,
		EXEC(env_files) },
	{ "clearenv", 'E', NULL, 0, "drop the caller's variables", 0, EXEC(clearenv) },
	{ "entrypoint", 0, "CMD", OPTION_ARG_OPTIONAL, "run the image's entrypoint, or CMD", 0,
		OPT_CALL(take_entrypoint) },
	{ "entry", 0, NULL, OPTION_ALIAS, NULL, 0 },
	{ "workdir", 'w', "DIR", OPTION_ARG_OPTIONAL, "start in the image's directory, or in DIR",
		0, OPT_CALL(take_workdir) },
	{ "module", 'm', "NAME[,NAME]", 0, "use modules of the site, or none", 0,
		OPT(struct args, modules) },
	{ "mpi", 0, NULL, 0, "the same as --module=mpich", 0, OPT_CALL(take_mpi) },
	{ "explain", 0, NULL, 0, "print what the container would have; run nothing", 0,
		OPT_CALL(take_explain) },
	{ "verbose", 'v', NULL, 0, "print every step on stderr", 0,
		OPT_CALL(cli_options_be_verbose) },
	{ "help", 'h', NULL, 0, "print this", 0, OPT_CALL(print_help) },
	/* A container's root can be written to and forgets. */
	{ "writable-volatile", 0, "DIR", OPTION_HIDDEN, NULL, 0, { 0 } },
	{ "tty", 't', NULL, OPTION_HIDDEN, NULL, 0, { 0 } },
	{ "debug", 0, NULL, OPTION_HIDDEN, NULL, 0, OPT_CALL(cli_options_be_verbose) },
	{ 0 },
};

/* --- scripts whose interpreter is shifter ---------------------------------------- */

/* Is this a script that begins "#!...shifter"? */
static int is_our_script(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char line[256];
	struct stat st;
	ssize_t n;
	char *end;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	n = read(fd, line, sizeof(line) - 1);
	if (n < 3 || line[0] != '#' || line[1] != '!')
		return 0;
	line[n] = '\0';
	end = line + 2 + strspn(line + 2, " \t");
	end[strcspn(end, " \t\n")] = '\0';
	end = strrchr(end, '/');
	return end && strcmp(end, "/shifter") == 0;
}

void shifter_split_interpreter_line(int *argc, char ***argv, struct strv *list)
{
	char *rest, *word;

	if (*argc < 3 || (*argv)[1][0] != '-' || !strpbrk((*argv)[1], " \t") ||
		!is_our_script((*argv)[2]))
		return;
	strv_add(list, (*argv)[0]);
	rest = (*argv)[1];
	while ((word = strsep(&rest, " \t")))
		if (*word)
			strv_add(list, word);
	for (int i = 2; i < *argc; i++)
		strv_add(list, (*argv)[i]);
	*argc = (int)list->n;
	*argv = list->v;
}

/* A script that shifter interprets must be in the container: the batch system keeps its copy in a
 * directory of its own. A script without another interpreter is sh's. list owns the command. */
static void bring_script(struct args *a, struct strv *list)
{
	char *const *command = a->x.exec.command;
	int at = command && command[0] && is_our_script(command[0]) ? 0 : 1;

	if (!command || !command[0] || (at == 1 && (!command[1] || !is_our_script(command[1]))))
		return;
	if (command[at][0] == '/')
		strv_addf(&a->x.exec.volumes, "%s:%s:ro", command[at], command[at]);
	if (at == 1)
		return;
	strv_add(list, "/bin/sh");
	for (char *const *s = command; *s; s++)
		strv_add(list, *s);
	a->x.exec.command = list->v;
}

/* --- running ---------------------------------------------------------------------- */

int shifter_site(struct udiroot *ret, struct mlr_error *err)
{
	const char *path = getenv("MLRUN_UDIROOT");

	return udiroot_load(path && *path ? path : UDIROOT_CONF, ret, err);
}

/* Volumes of the command line replace those of the environment. */
static int add_volumes(struct args *a, struct mlr_error *err)
{
	static const char *const variables[] = { "SLURM_SPANK_SHIFTER_VOLUME", "SHIFTER_VOLUME" };
	struct exec_options *o = &a->x.exec;
	const char *env = NULL;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(variables) && !(env && *env); i++)
		env = getenv(variables[i]);
	for (size_t i = 0; r == 0 && i < a->volumes.n; i++)
		r = shifter_volumes_add(a->volumes.v[i], 0, o, err);
	if (r == 0 && a->volumes.n == 0 && env)
		r = shifter_volumes_add(env, 0, o, err);
	for (size_t i = 0; r == 0 && i < a->mounts.n; i++)
		r = shifter_mount_add(a->mounts.v[i], o, err);
	return r;
}

/* For struct cli_exec. The image's id is known only now: it may have been pulled. */
static void adjust(struct plan *p)
{
	auto_call(store_image_done) struct store_image im = { 0 };

	shifter_modules_env(&run.modules, &run.site, p);
	plan_env_set(p, "SHIFTER_RUNTIME", "1", PLAN_FROM_SITE);
	plan_env_set(p, "SHIFTER_IMAGEREQUEST", run.request, PLAN_FROM_SITE);
	if (cli_find_image(run.name, NULL, &im, NULL) == 0)
		plan_env_set(p, "SHIFTER_IMAGE", oci_digest_hex(im.manifest), PLAN_FROM_SITE);
}

/* A module's program, in the container and as the user; its failure is the command's. */
static int run_hook(const char *hook, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT;
	char *const argv[] = { "sh", "-c", (char *)hook, NULL };
	struct spawn s = { "/bin/sh", argv };
	pid_t child;
	int r;

	plan_env_list(p, &env);
	s.envp = strv_argv(&env);
	r = spawn_start(&s, &child);
	r = r < 0 ? r : spawn_wait_unless(child, NULL);
	return r > 0 ? mlr_fail(err, EIO, "userhook '%s' failed with status %d", hook, r)
		     : mlr_result(err, r, "userhook '%s'", hook);
}

static int become(struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < run.modules.n; i++) {
		const struct udiroot_module *m = udiroot_module_named(&run.site, run.modules.v[i]);

		TRY(m && m->user_hook ? run_hook(m->user_hook, p, err) : 0);
	}
	return run.wants_shell ? cli_become_shell(p, err) : runtime_exec(p, err);
}

/* The image's entrypoint runs only on request; without a command a shell does, or for `shifter run`
 * the image's own command. shell gets the shell's command line. */
static void choose_command(struct args *a, struct strv *shell)
{
	struct exec_options *o = &a->x.exec;
	int has_command = o->command && *o->command;

	if (a->has_entrypoint)
		o->entrypoint = a->entrypoint; /* NULL: the image's */
	else if (has_command)
		o->entrypoint = "";
	run.wants_shell = !has_command && !a->has_entrypoint && !a->is_run;
	if (!run.wants_shell)
		return;
	strv_add(shell, cli_callers_shell());
	o->command = shell->v;
	o->entrypoint = "";
}

static int prepare(struct args *a, char **image, struct mlr_error *err)
{
	TRY(shifter_site(&run.site, err));
	TRY(shifter_image_name(a->image, run.site.image_type, image, err));
	TRY(shifter_modules_choose(&a->modules, &run.site, &run.modules, err));
	TRY(shifter_modules_options(&run.modules, &run.site, &a->x.exec, err));
	TRY(add_volumes(a, err));
	a->x.exec.image = *image;
	run.request = a->image;
	run.name = *image;
	return 0;
}

static int start(struct args *a)
{
	auto_free char *image = NULL;
	auto_strv struct strv shell = STRV_INIT, script = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	bring_script(a, &script);
	choose_command(a, &shell);
	a->x.exec.store = a->x.common.store;
	a->x.adjust = adjust;
	a->x.argv = run.argv;
	a->x.image_word = a->image;
	status = prepare(a, &image, &err);
	return status < 0 ? cli_fail_at(&err, "shifter") : cli_exec_run(&a->x, become);
}

static const char doc[] =
	"Run a command in an image, as Shifter does.\v"
	"Without a command $SHELL runs. The image is also that of SHIFTER_IMAGE or SHIFTER. Of mlrun; "
	"mlrun-shifter(1) says what differs from Shifter.";

/* Fail if there is no image, with a hint at the command line. */
static int run_parsed(struct args *a, const char *missing, const char *hint)
{
	struct mlr_error err;

	if (a->image)
		return start(a);
	mlr_fail(&err, EINVAL, "%s", missing);
	mlr_hint(&err, "%s", hint);
	return cli_fail(&err);
}

int shifter_run_by_option(int argc, char **argv, const char *wanted)
{
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[COMMAND [ARG...]]",
		.s.doc = doc,
		.s.in_order = 1,
		.s.operands = { OPT_CALL(take_operands) } };
	static struct args a;

	run.argv = argv;
	cli_options_parse(argc, argv, &syntax, &a);
	if (!a.image)
		a.image = wanted;
	return run_parsed(&a, "shifter: no image: neither --image nor a command of Shifter's",
		"shifter --image=NAME COMMAND, or shifter run NAME COMMAND; also shifter pull, "
		"images, rmi, load");
}

int shifter_run(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "IMAGE [COMMAND [ARG...]]",
		.s.doc = "Run a command in an image.",
		.s.in_order = 1,
		.s.operands = { OPT_CALL(take_operands) } };
	static struct args a = { .is_run = 1 };

	run.argv = argv;
	cli_options_parse(argc, argv, &syntax, &a);
	return run_parsed(&a, "shifter run: the image is missing", "shifter run IMAGE COMMAND");
}
