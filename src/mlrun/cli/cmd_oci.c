/* mlrun oci: the command line that callers of OCI runtimes expect, as runc and crun have it. */
#include "config.h"

#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/options.h"

#include "base/proc.h"
#include "base/follow.h"
#include "base/json.h"
#include "base/program.h"
#include "bundle/lifecycle.h"
#include "bundle/signal.h"
#include "bundle/write.h"
#include "plan/capability.h"

#define OCI_FAILED 1 /* as runc and crun end */

/* Without libseccomp a bundle's profile is refused. */
#if HAVE_SECCOMP
#define HAS_SECCOMP 1
#else
#define HAS_SECCOMP 0
#endif

/* --- options before the command -------------------------------------------------- */

struct globals {
	const char *root, *log, *log_format;
	int command; /* the index of the command in argv; 0: there is none */
};

static struct globals globals;

static const struct option_row global_options[] = {
	{ "root", 0, "DIR", 0, "where the states of containers are", 0, OPT(struct globals, root) },
	{ "log", 0, "FILE", 0, "append errors to FILE, too", 0, OPT(struct globals, log) },
	{ "log-format", 0, "text|json", 0, "how they are written there", 0,
		OPT(struct globals, log_format) },
	{ "debug", 0, 0, 0, "changes nothing, as the next ones", 0 },
	{ "systemd-cgroup", 0, 0, 0, 0, 0 },
	{ "cgroup-manager", 0, "NAME", 0, 0, 0 },
	{ "rootless", 0, "WORD", 0, 0, 0 },
	{ 0 },
};

static void take_command(void *args, char *arg, struct argp_state *state)
{
	globals.command = state->next - 1;
	state->next = state->argc;
}

static const struct cli_syntax global_syntax = {
	.s.options = global_options,
	.s.args_doc = "COMMAND [OPTION...] [ARG...]",
	.s.doc = "Run OCI bundles, as runc and crun do.",
	.no_store = 1,
	.s.in_order = 1,
	.s.operands = { OPT_CALL(take_command) },
};

/* Write the failure where callers such as conmon read it. */
static void log_failure(const struct mlr_error *err)
{
	auto_close int fd = follow_append(globals.log, NULL);
	auto_free char *text = NULL;
	char when[CLI_TIME_SIZE];

	mlr_time_utc(time(NULL), when);
	if (globals.log_format && strcmp(globals.log_format, "json") == 0) {
		json_auto_t *o = json_pack("{s:o, s:s, s:s}", "msg", mlr_json_text(err->text),
			"level", "error", "time", when);

		text = json_dumps(o, JSON_COMPACT);
	} else {
		text = xasprintf("%s: %s", when, err->text);
	}
	if (fd >= 0 && text)
		dprintf(fd, "%s\n", text);
}

static int fail(const struct mlr_error *err)
{
	if (globals.log)
		log_failure(err);
	cli_fail(err);
	return OCI_FAILED;
}

/* The exit status after lifecycle_run() and its kin. */
static int end(int r, int status, const struct mlr_error *err)
{
	if (r == 0)
		return status;
	fail(err);
	return status ? status : OCI_FAILED;
}

/* The syntax of a command whose only operand is a container's name. */
#define OF_ID(target)                                                               \
	.s.args_doc = "ID", .no_store = 1, .s.operands = { target }, .s.needed = 1, \
	.s.missing = "a container's name is expected"

/* Of create, run and exec. */
static const struct option_row process_options[] = {
	{ "pid-file", 0, "FILE", 0, "write its pid to FILE", 0,
		OPT(struct lifecycle_options, pid_file) },
	{ "console-socket", 0, "SOCKET", 0, "send its terminal there", 0,
		OPT(struct lifecycle_options, console_socket) },
	{ "preserve-fds", 0, "N", 0, "the command inherits N descriptors from 3 on", 0,
		OPT_COUNT(struct lifecycle_options, preserve_fds, 0, 1 << 20) },
	{ 0 },
};

/* --- create, run -------------------------------------------------------------------- */

static const struct option_row making_options[] = {
	{ "bundle", 'b', "DIR", 0, "the bundle's directory; default: this one", 0,
		OPT(struct lifecycle_options, bundle) },
	{ "config", 'f', "FILE", 0, "in place of config.json", 0,
		OPT(struct lifecycle_options, config) },
	{ "no-new-keyring", 0, 0, 0, "the container has the caller's session keyring", 0,
		OPT(struct lifecycle_options, keep_keyring) },
	{ "no-pivot", 0, 0, 0, "changes nothing, as the next one", 0 },
	{ "no-subreaper", 0, 0, 0, 0, 0 },
	{ 0 },
};
static const struct option_row run_options[] = {
	{ "keep", 0, 0, 0, "do not delete it at the end", 0, OPT(struct lifecycle_options, keep) },
	{ "detach", 'd', 0, 0, "do not wait for its end", 0,
		OPT(struct lifecycle_options, detach) },
	{ 0 },
};

static const struct cli_syntax create_syntax = {
	OF_ID(OPT(struct lifecycle_options, id)),
	.s.options = making_options,
	.s.shared = { { process_options, 0 } },
	.s.doc = "Make a container of a bundle; it waits for its start.",
};
static const struct cli_syntax run_syntax = {
	OF_ID(OPT(struct lifecycle_options, id)),
	.s.options = run_options,
	.s.shared = { { process_options, 0 }, { making_options, 0 } },
	.s.doc = "Create, start and delete a container. The exit status is its command's.",
};

static int make(int argc, char **argv, const struct cli_syntax *syntax,
	int (*fn)(const struct lifecycle_options *o, int *status, struct mlr_error *err))
{
	struct lifecycle_options o = { .root = globals.root, .bundle = "." };
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0, r;

	cli_options_parse(argc, argv, syntax, &o);
	r = fn(&o, &status, &err);
	return end(r, status, &err);
}

static int oci_create(int argc, char **argv)
{
	return make(argc, argv, &create_syntax, lifecycle_create);
}

static int oci_run(int argc, char **argv)
{
	return make(argc, argv, &run_syntax, lifecycle_run);
}

/* --- start, state, kill, delete, list ------------------------------------------------ */

struct one {
	const char *id, *word;
	int all, force;
};

#define OF_ONE(its_options, text)                                                   \
	{                                                                           \
		OF_ID(OPT(struct one, id)), .s.options = its_options, .s.doc = text \
	}

static const struct cli_syntax start_syntax =
	OF_ONE(NULL, "Execute the command of a created container.");
static const struct cli_syntax pause_syntax = OF_ONE(NULL, "Freeze a container's processes.");
static const struct cli_syntax resume_syntax =
	OF_ONE(NULL, "Let the processes of a paused container go on.");
static const struct cli_syntax state_syntax = OF_ONE(NULL, "Print a container's state as JSON.");

/* Commands of a container's name only. */
static int act(int argc, char **argv, const struct cli_syntax *syntax,
	int (*fn)(const char *root, const char *id, struct mlr_error *err))
{
	struct one a = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, syntax, &a);
	return fn(globals.root, a.id, &err) < 0 ? fail(&err) : 0;
}

static int oci_start(int argc, char **argv)
{
	return act(argc, argv, &start_syntax, lifecycle_start);
}

static int oci_pause(int argc, char **argv)
{
	return act(argc, argv, &pause_syntax, lifecycle_pause);
}

static int oci_resume(int argc, char **argv)
{
	return act(argc, argv, &resume_syntax, lifecycle_resume);
}

/* A container whose making was killed has no document. */
static json_t *look(const struct state *s)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	struct mlr_error none = MLR_ERROR_INIT;

	bundle_state_bundle(s, &b, &none);
	return bundle_state_json(s, &b, bundle_state_status(s));
}

static int oci_state(int argc, char **argv)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	struct one a = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, &state_syntax, &a);
	return bundle_state_open(globals.root, a.id, &s, &err) < 0 ? fail(&err)
								   : cli_print_json(look(&s));
}

static const struct option_row kill_options[] = {
	{ "all", 'a', 0, 0, "signal every process in the container", 0, OPT(struct one, all) },
	{ 0 },
};
static const struct cli_syntax kill_syntax = {
	.s.options = kill_options,
	.s.args_doc = "ID [SIGNAL]",
	.s.doc = "Send a signal to a container's process, TERM by default.",
	.no_store = 1,
	.s.operands = { OPT(struct one, id), OPT(struct one, word) },
	.s.needed = 1,
	.s.missing = "a container's name is expected",
};

static int oci_kill(int argc, char **argv)
{
	struct one a = { .word = "TERM" };
	struct mlr_error err = MLR_ERROR_INIT;
	int sig;

	cli_options_parse(argc, argv, &kill_syntax, &a);
	sig = strcmp(a.word, "0") == 0 ? 0 : signal_number(a.word); /* 0 only asks */
	if (sig < 0) {
		mlr_fail(&err, EINVAL, "kill '%s': unknown signal '%s'", a.id, a.word);
		return fail(&err);
	}
	return lifecycle_kill(globals.root, a.id, sig, a.all, &err) < 0 ? fail(&err) : 0;
}

static const struct option_row delete_options[] = {
	{ "force", 'f', 0, 0, "kill it first, and accept that there is none", 0,
		OPT(struct one, force) },
	{ 0 },
};
static const struct cli_syntax delete_syntax =
	OF_ONE(delete_options, "Delete a container that has ended.");

static int oci_delete(int argc, char **argv)
{
	struct one a = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, &delete_syntax, &a);
	return lifecycle_delete(globals.root, a.id, a.force, &err) < 0 ? fail(&err) : 0;
}

static const char *const formats[] = { "table", "json", NULL };

struct list {
	int format, only_ids;
};

static const struct option_row list_options[] = {
	{ "quiet", 'q', 0, 0, "print only names", 0, OPT(struct list, only_ids) },
	{ "format", 'f', "table|json", 0, "table is the default", 0,
		OPT_WORD(struct list, format, formats) },
	{ 0 },
};
static const struct cli_syntax list_syntax = {
	.s.options = list_options,
	.s.doc = "List all containers.",
	.no_store = 1,
};

static void list_row(struct listing *l, const struct state *s)
{
	json_auto_t *o = look(s);
	static const char *const columns[][2] = { { "ID", "id" }, { "PID", "pid" },
		{ "STATUS", "status" }, { "BUNDLE", "bundle" }, { "CREATED", "created" } };

	listing_row(l);
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		const json_t *v = o ? json_object_get(o, columns[i][1]) : NULL;

		if (json_is_integer(v))
			listing_number(l, columns[i][0], NULL, json_integer_value(v));
		else
			listing_text(l, columns[i][0], NULL, v ? json_string_value(v) : "");
	}
}

static int oci_list(int argc, char **argv)
{
	auto_strv struct strv names = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct list a = { 0 };
	struct listing l = { 0 };
	json_auto_t *all = json_array();

	cli_options_parse(argc, argv, &list_syntax, &a);
	if (bundle_state_list(globals.root, &names, &err) < 0)
		return fail(&err);
	for (size_t i = 0; i < names.n; i++) {
		auto_call(bundle_state_done) struct state s = STATE_INIT;

		/* It may have been deleted meanwhile. */
		if (bundle_state_open(globals.root, names.v[i], &s, &err) < 0)
			continue;
		if (a.only_ids)
			puts(names.v[i]);
		else if (a.format == 1)
			json_array_append_new(all, look(&s));
		else
			list_row(&l, &s);
	}
	if (a.only_ids)
		return 0;
	return a.format == 1 ? cli_print_json(json_incref(all)) : listing_end(&l);
}

/* --- exec, ps ------------------------------------------------------------------------- */

struct exec {
	struct lifecycle_exec x;
	struct strv words; /* the container's name and the command */
};

static const struct option_row exec_options[] = {
	{ "process", 'p', "FILE", 0, "its \"process\", as config.json has it", 0,
		OPT_FILE(struct exec, x.process) },
	{ "detach", 'd', 0, 0, "do not wait for its end", 0, OPT(struct exec, x.o.detach) },
	{ "tty", 't', 0, 0, "with a terminal", 0, OPT(struct exec, x.terminal) },
	{ "cwd", 0, "DIR", 0, "its working directory", 0, OPT(struct exec, x.cwd) },
	{ "env", 'e', "NAME=VALUE", 0, "a further variable", 0, OPT(struct exec, x.env) },
	{ "no-new-privs", 0, 0, 0, "changes nothing, as it is always so", 0 },
	{ 0 },
};

/* The container's name and all that follows, options included. */
static void take_words(void *field, char *id, struct argp_state *state)
{
	strv_add(field, id);
	for (; state->next < state->argc; state->next++)
		strv_add(field, state->argv[state->next]);
}

static void check_exec(void *args, struct argp_state *state)
{
	struct exec *e = args;

	if (e->words.n == 0)
		argp_error(state, "a container's name is expected");
	e->x.o.id = e->words.v[0];
	e->x.argv = (struct strv){ e->words.v + 1, e->words.n - 1 };
	if (!e->x.process == (e->x.argv.n == 0))
		argp_error(state, "either --process or a command is expected");
}

static const struct cli_syntax exec_syntax = {
	.s.options = exec_options,
	.s.shared = { { process_options, offsetof(struct exec, x.o) } },
	.s.args_doc = "ID [COMMAND [ARG...]]",
	.s.doc =
		"Run a command in a container that runs or waits for its start. The exit status is the command's.",
	.no_store = 1,
	.s.in_order = 1,
	.s.operands = { OPT_PARSE(struct exec, words, take_words) },
	.s.check = check_exec,
};

static int oci_exec(int argc, char **argv)
{
	static struct exec e;
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0, r;

	e.x.o.root = globals.root;
	cli_options_parse(argc, argv, &exec_syntax, &e);
	r = lifecycle_exec(&e.x, &status, &err);
	return end(r, status, &err);
}

struct ps {
	struct strv words; /* the container's name, then options of ps(1) */
	int format;
};

static const struct option_row ps_options[] = {
	{ "format", 'f', "table|json", 0, "table is the default; json: a list of pids", 0,
		OPT_WORD(struct ps, format, formats) },
	{ 0 },
};
static const struct cli_syntax ps_syntax = {
	.s.options = ps_options,
	.s.args_doc = "ID [OPTION-OF-PS...]",
	.s.doc = "List a container's processes by ps(1), -ef if no option is given.",
	.no_store = 1,
	.s.in_order = 1,
	.s.operands = { OPT_PARSE(struct ps, words, take_words) },
	.s.needed = 1,
	.s.missing = "a container's name is expected",
};

/* The word in a line's column, to free(); NULL: there is none. */
static char *column_of(const char *line, size_t column)
{
	line += strspn(line, " ");
	for (; column > 0; column--) {
		line += strcspn(line, " \n");
		line += strspn(line, " ");
	}
	return xstrndup(line, strcspn(line, " \n"));
}

/* The number of the column "PID", or -1. */
static int find_pid_column(const char *line)
{
	for (int i = 0;; i++) {
		auto_free char *title = column_of(line, (size_t)i);

		if (!*title || strcmp(title, "PID") == 0)
			return *title ? i : -1;
	}
}

/* Print the rows of ps(1) that are of these processes: its own options add to a list of pids. */
static int print_processes(const struct strv *words, const struct strv *pids, struct mlr_error *err)
{
	auto_free char *path = program_find("ps"), *line = NULL;
	size_t size = 0;
	int out, column = -1, status;
	pid_t pid;
	FILE *f;
	int r = path ? program_start(path, strv_argv(words), environ, &out, &pid) : -ENOENT;

	if (r < 0)
		return mlr_result(err, r, "start ps(1)");
	f = fdopen(out, "r");
	for (int first = 1; f && getline(&line, &size, f) > 0; first = 0) {
		auto_free char *its = NULL;

		if (first)
			column = find_pid_column(line);
		its = column < 0 ? NULL : column_of(line, (size_t)column);
		if (first || (its && strv_has(pids, its)))
			fputs(line, stdout);
	}
	if (f)
		fclose(f);
	waitpid(pid, &status, 0);
	return column < 0 ? mlr_fail(err, EINVAL, "ps: no column is called PID") : 0;
}

static int oci_ps(int argc, char **argv)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	auto_strv struct strv pids = STRV_INIT, words = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct ps a = { 0 };

	cli_options_parse(argc, argv, &ps_syntax, &a);
	if (bundle_state_open(globals.root, a.words.v[0], &s, &err) < 0)
		return fail(&err);
	bundle_signal_all(&s, 0, &pids);
	if (a.format == 1) {
		json_t *list = json_array();

		for (size_t i = 0; i < pids.n; i++)
			json_array_append_new(list, json_integer(atol(pids.v[i])));
		return cli_print_json(list);
	}
	if (pids.n == 0) {
		mlr_fail(&err, EINVAL, "ps '%s': container not running", a.words.v[0]);
		return fail(&err);
	}
	strv_add(&words, "ps");
	for (size_t i = 1; i < a.words.n; i++)
		strv_add(&words, a.words.v[i]);
	if (words.n == 1)
		strv_add(&words, "-ef");
	return print_processes(&words, &pids, &err) < 0 ? fail(&err) : 0;
}

/* --- spec, features ------------------------------------------------------------------- */

struct spec {
	const char *bundle;
};

static const struct option_row spec_options[] = {
	{ "bundle", 'b', "DIR", 0, "where to write it; default: this directory", 0,
		OPT(struct spec, bundle) },
	{ "rootless", 0, 0, 0, "changes nothing", 0 },
	{ 0 },
};
static const struct cli_syntax spec_syntax = {
	.s.options = spec_options,
	.s.doc = "Write a config.json that runs a shell in the directory rootfs.",
	.no_store = 1,
};

static int oci_spec(int argc, char **argv)
{
	struct spec a = { .bundle = "." };
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, &spec_syntax, &a);
	return bundle_write(a.bundle, NULL, &err) < 0 ? fail(&err) : 0;
}

static json_t *names_of_capabilities(void)
{
	json_t *list = json_array();

	for (unsigned i = 0; capability_name(i); i++)
		json_array_append_new(list, json_string(capability_name(i)));
	return list;
}

static const struct cli_syntax features_syntax = {
	.s.doc = "Print what this runtime supports, as JSON (runtime-spec, features.md).",
	.no_store = 1,
};

static int oci_features(int argc, char **argv)
{
	int nothing = 0;

	cli_options_parse(argc, argv, &features_syntax, &nothing);
	return cli_print_json(json_pack(
		"{s:s, s:s, s:o, s:{s:[s,s,s,s,s,s,s], s:o, s:{s:b}, s:{s:b}, s:{s:b}, s:{s:b}}}",
		"ociVersionMin", "1.0.0", "ociVersionMax", "1.1.0", "hooks",
		MLR_JSON_LIST(i, BUNDLE_STAGES, json_string(bundle_stage_name(i))), "linux",
		"namespaces", "cgroup", "ipc", "mount", "network", "pid", "user", "uts",
		"capabilities", names_of_capabilities(), "seccomp", "enabled", HAS_SECCOMP,
		"apparmor", "enabled", 0, "selinux", "enabled", 0, "intelRdt", "enabled", 0));
}

/* --- all of them ----------------------------------------------------------------------- */

static const struct command rows[] = {
	{ "create", oci_create, NULL, "make a container of a bundle" },
	{ "start", oci_start, NULL, "execute its command" },
	{ "state", oci_state, NULL, "print its state" },
	{ "kill", oci_kill, NULL, "send it a signal" },
	{ "pause", oci_pause, NULL, "freeze its processes" },
	{ "resume", oci_resume, NULL, "let them go on" },
	{ "delete", oci_delete, NULL, "delete it" },
	{ "run", oci_run, NULL, "create, start and delete a container" },
	{ "exec", oci_exec, NULL, "run another command in it" },
	{ "ps", oci_ps, NULL, "list its processes" },
	{ "list", oci_list, NULL, "list all containers" },
	{ "spec", oci_spec, NULL, "write a config.json" },
	{ "features", oci_features, NULL, "print what is supported" },
};

static const struct commands commands = {
	.group = "oci",
	.before = "Usage: mlrun oci [--root=DIR] COMMAND [OPTION...] [ARG...]\n"
		  "Run OCI bundles, as runc and crun do: for Slurm's --container and the like.\n\n",
	.after = "\n`mlrun oci COMMAND --help` lists a command's options; mlrun-oci(1) the rest.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

static int is_version(const char *word)
{
	return strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0;
}

static int is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "-?") == 0;
}

int cmd_oci(int argc, char **argv)
{
	int before; /* options, and argv[0] */

	if (argc > 1 && is_version(argv[1])) {
		printf("mlrun version %s\nspec: 1.0.2\n", PACKAGE_VERSION);
		return 0;
	}
	if (argc < 2 || argv[1][0] != '-' || is_help(argv[1]))
		return commands_run(&commands, argc, argv);
	cli_options_parse(argc, argv, &global_syntax, &globals);
	before = globals.command ? globals.command : argc;
	argv[before - 1] = argv[0];
	return commands_run(&commands, argc - before + 1, argv + before - 1);
}
