/* apptainer, singularity, run-singularity: instances, and the list of all commands. */
#include "cli/apptainer.h"

#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/services.h"

#include "base/json.h"

#include <fnmatch.h>

/* Scripts ask for a version: that whose command line this is. */
#define VERSION "1.3.0"

/* --- instances ------------------------------------------------------------------------ */

struct instances {
	int json, all, force;
	const char *signal, *seconds;
	struct strv names; /* or patterns */
	struct service_list list;
};

static void instances_done(struct instances *a)
{
	strv_done(&a->names);
	service_list_done(&a->list);
}

/* Read the services of this node. */
static int parse_instances(
	int argc, char **argv, const struct option_row *options, struct instances *a)
{
	const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[NAME...]",
		.s.doc = "mlrun ps, mlrun logs and mlrun restart know instances, too.",
		.s.operands = { OPT(struct instances, names) },
		.no_store = 1 };
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, a);
	r = services_open(NULL, &st, &err);
	if (r == 0)
		r = service_list_read(st, &a->list, &err);
	return r == 0 || r == -ENOENT ? 0 : cli_fail_at(&err, "%s", argv[0]);
}

/* Does it run, is it of this dialect, and is it one of those that are named? */
static int is_wanted(const struct instances *a, const struct service *s)
{
	int is_named = a->names.n == 0;

	for (size_t i = 0; i < a->names.n; i++)
		is_named |= fnmatch(a->names.v[i], s->name, 0) == 0;
	for (size_t i = 0; i < s->options.n && is_named && s->status == SERVICE_RUNNING; i++)
		if (strncmp(s->options.v[i], "--dialect=apptainer", 19) == 0)
			return 1;
	return 0;
}

static void put_instance(struct listing *l, const struct service *s)
{
	const char *place = s->image ? strchr(s->image, ':') : NULL;

	listing_text(l, "INSTANCE NAME", "instance", s->name);
	listing_number(l, "PID", "pid", s->pid);
	listing_text(l, "IP", "ip", "");
	listing_text(l, "IMAGE", "img", place ? place + 1 : s->image);
}

static int cmd_list(int argc, char **argv)
{
	static const struct option_row options[] = { CLI_OPTION_JSON(struct instances), { 0 } };
	const struct service none = SERVICE_INIT;
	auto_call(instances_done) struct instances a = { .names = STRV_INIT };
	struct listing rows = { .as_json = 0 };
	int status = parse_instances(argc, argv, options, &a);

	if (status != 0)
		return status;
	rows.as_json = a.json;
	for (size_t i = 0; i < a.list.n; i++)
		if (is_wanted(&a, &a.list.v[i])) {
			listing_row(&rows);
			put_instance(&rows, &a.list.v[i]);
		}
	if (!rows.rows) {
		listing_heads(&rows);
		put_instance(&rows, &none);
	}
	return a.json ? cli_print_json(json_pack("{s:o}", "instances", listing_take(&rows)))
		      : listing_end(&rows);
}

static int cmd_stop_instances(int argc, char **argv)
{
	static const struct option_row options[] = { { "all", 'a', NULL, 0, "all of them", 0,
							     OPT(struct instances, all) },
		{ "force", 'F', NULL, 0, "kill them", 0, OPT(struct instances, force) },
		{ "signal", 's', "SIGNAL", 0, "send this signal", 0,
			OPT(struct instances, signal) },
		{ "timeout", 't', "SECONDS", 0, "until they are killed", 0,
			OPT(struct instances, seconds) },
		{ 0 } };
	auto_call(instances_done) struct instances a = { .names = STRV_INIT };
	auto_strv struct strv line = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int status = parse_instances(argc, argv, options, &a), is_kill = a.force || a.signal;

	if (status != 0)
		return status;
	strv_add(&line, is_kill ? "kill" : "stop");
	if (is_kill)
		strv_addf(&line, "--signal=%s", a.signal ? a.signal : "KILL");
	else
		strv_addf(&line, "--time=%s", a.seconds ? a.seconds : "10");
	for (size_t i = 0; i < a.list.n && (a.all || a.names.n); i++)
		if (is_wanted(&a, &a.list.v[i]))
			strv_add(&line, a.list.v[i].name);
	strv_argv(&line);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (line.n > 2)
		return (is_kill ? cmd_kill : cmd_stop)((int)line.n, line.v);
	mlr_fail(&err, ENOENT,
		a.all || a.names.n ? "no such instance is running" : "a name is missing");
	mlr_hint(&err, "apptainer instance list shows the names, --all stops all");
	cli_fail_at(&err, "%s", argv[0]);
	return APPTAINER_USAGE;
}

static const struct command instance_rows[] = {
	{ "start", apptainer_run, NULL, "start an image's startscript in the background" },
	{ "run", apptainer_run, NULL, "start its runscript so" },
	{ "list", cmd_list, NULL, "list those that run" },
	{ "stop", cmd_stop_instances, NULL, "end them" },
};

static const struct commands instance_commands = {
	.group = "apptainer instance",
	.before = "Usage: apptainer instance COMMAND [OPTION...] [ARG...]\n\n",
	.after = "",
	.rows = instance_rows,
	.n = ARRAY_LEN(instance_rows),
};

static int cmd_instance(int argc, char **argv)
{
	return commands_run(&instance_commands, argc, argv);
}

/* --- the list ------------------------------------------------------------------------- */

static int cmd_version(int argc, char **argv)
{
	puts(VERSION);
	return 0;
}

static const struct command rows[] = {
	{ "exec", apptainer_run, NULL, "run a command in an image" },
	{ "run", apptainer_run, NULL, "run what an image is made for" },
	{ "shell", apptainer_run, NULL, "start a shell in an image" },
	{ "test", apptainer_run, NULL, "run an image's test" },
	{ "instance", cmd_instance, NULL, "start, list and stop instances" },
	{ "instance.start", apptainer_run },
	{ "instance.list", cmd_list },
	{ "instance.stop", cmd_stop_instances },
	{ "pull", NULL, "mlrun-pull", "fetch an image into a SIF file" },
	{ "build", NULL, "mlrun-pull", "make a SIF file or a directory" },
	{ "inspect", NULL, "mlrun-pull", "print what an image says of itself" },
	{ "run-help", NULL, "mlrun-pull", "print an image's help" },
	{ "version", cmd_version, NULL, "print the version of this command line" },
};

static const struct commands commands = {
	.group = "apptainer",
	.knows_foreign = 1,
	.before = "Usage: apptainer [-d|-q|-s|-v] COMMAND [OPTION...] [ARG...]\n"
		  "Run container images by Apptainer's commands, with mlrun.\n\n",
	.after =
		"\n`apptainer COMMAND --help` lists a command's options; mlrun-apptainer(1) has more.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

/* Read the options before the command. Returns how many there are. */
static int take_globals(int argc, char **argv)
{
	static const char loud[] = "-d|--debug|-v|--verbose", quiet[] = "-q|--quiet|-s|--silent";
	int n = 1;

	for (; n < argc; n++)
		if (config_is_among(loud, argv[n]))
			setenv("MLRUN_LOG", "debug", 1);
		else if (config_is_among(quiet, argv[n]))
			setenv("MLRUN_LOG", "error", 1);
		else if (strcmp(argv[n], "--nocolor") != 0)
			break;
	if (n > 1)
		mlr_log_init("mlrun");
	return n - 1;
}

/* Put the store where Apptainer's cache is wished, unless a setting names a place. */
static void choose_store(void)
{
	const char *cache = apptainer_variable("CACHEDIR");
	auto_call(config_done) struct config c = { 0 };
	auto_free char *store = cache ? xasprintf("%s/mlrun", cache) : NULL;

	if (store && config_load(&c, NULL) == 0 && !config_get(&c, "", "store"))
		setenv("MLRUN_STORE", store, 0);
}

int cmd_apptainer(int argc, char **argv)
{
	static char self[] = "apptainer", run[] = "apptainer run";
	int is_script = strcmp(basename(argv[0]), "run-singularity") == 0, n;

	apptainer_begin();
	choose_store();
	if (is_script) {
		argv[0] = run;
		return apptainer_status(apptainer_run(argc, argv));
	}
	n = take_globals(argc, argv);
	argc -= n;
	argv += n;
	argv[0] = self; /* mlrun-pull knows itself by it */
	if (argc > 1 && strcmp(argv[1], "--version") == 0)
		return printf("mlrun's apptainer version %s\n", VERSION) < 0;
	return apptainer_status(commands_run(&commands, argc, argv));
}
