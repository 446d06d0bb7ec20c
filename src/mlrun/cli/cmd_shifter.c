/*
 * shifter: Shifter's command line, in the form of NERSC,
 *
 *   shifter --image=[TYPE:]NAME [OPTION...] [COMMAND [ARG...]]
 *
 * and of CSCS and Pawsey: shifter pull | run | images | rmi | load | login. Whichever form, options
 * of both are known.
 */
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/shifter.h"

#include "oci/digest.h"
#include "oci/ref.h"
#include "shifter/image.h"

#include <argp.h>

static char end_of_options[] = "--";

/* Become another command of mlrun's with these words and then ours. */
static int become_command(const char *command, const char *option, char **words)
{
	auto_strv struct strv argv = STRV_INIT;

	strv_add_words(&argv, "mlrun", command);
	if (option)
		strv_add(&argv, option);
	for (char **s = words; *s; s++)
		strv_add(&argv, *s);
	return cli_become("mlrun-pull", argv.v);
}

/* Ask for a name and password before the pull. */
static int login_first(const char *image)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char *words[2] = { 0 };
	pid_t child;
	int status;

	if (oci_ref_parse(image, &ref, &err) < 0)
		return cli_fail_at(&err, "shifter pull");
	words[0] = ref.registry;
	child = fork();
	if (child == 0)
		_exit(become_command("login", NULL, words));
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		return CLI_FAILED;
	return 0;
}

struct pull_args {
	struct cli_common common;
	int login;
	const char *image;
};

static const struct option_row pull_options[] = {
	{ "login", 0, NULL, 0, "ask for a user name and password first", 0,
		OPT(struct pull_args, login) },
	{ 0 },
};

static int cmd_pull_image(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = pull_options,
		.s.args_doc = "IMAGE",
		.s.doc = "Fetch an image.",
		.s.operands = { OPT(struct pull_args, image) },
		.s.needed = 1,
		.s.missing = "an image is missing" };
	auto_call(udiroot_done) struct udiroot site = { 0 };
	auto_free char *name = NULL, *store = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct pull_args a = { 0 };
	char *words[3] = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (shifter_site(&site, &err) < 0 ||
		shifter_image_name(a.image, site.image_type, &name, &err) < 0)
		return cli_fail_at(&err, "shifter pull");
	if (a.login && login_first(name) != 0)
		return CLI_FAILED;
	if (a.common.store)
		store = xasprintf("--store=%s", a.common.store);
	words[0] = end_of_options;
	words[1] = name;
	return become_command("pull", store, words);
}

static int cmd_load(int argc, char **argv)
{
	auto_free char *name = NULL;
	char *words[4] = { 0 };
	struct mlr_error err;

	if (argc != 3) {
		mlr_fail(&err, EINVAL, "shifter load: a file and a name are expected");
		mlr_hint(&err,
			"docker save NAME >FILE, then shifter load FILE NAME; it is run as "
			"load/library/NAME");
		return cli_fail(&err);
	}
	name = xasprintf("load/library/%s", argv[2]);
	words[0] = end_of_options;
	words[1] = argv[1];
	words[2] = name;
	return become_command("import", NULL, words);
}

static int cmd_login_to(int argc, char **argv)
{
	return become_command("login", NULL, argv + 1);
}

/* "docker.io/library/debian:12" in three columns: "library/debian", "12", "docker.io". */
static void print_image(const struct store_image *im)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	char size[CLI_SIZE_SIZE], pulled[CLI_TIME_SIZE];
	struct mlr_error err = MLR_ERROR_INIT;

	if (oci_ref_parse(im->name, &ref, &err) < 0) { /* of another version of mlrun */
		puts(im->name);
		return;
	}
	cli_size(im->size, size);
	mlr_time_utc(im->pulled, pulled);
	printf("%-40s  %-16s  %.12s  %-20s  %9s  %s\n", ref.repository,
		ref.tag ? ref.tag : "<none>", oci_digest_hex(im->manifest), pulled, size,
		strcmp(ref.registry, "docker.io") == 0 ? "index.docker.io" : ref.registry);
}

static int cmd_list(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;

	printf("%-40s  %-16s  %-12s  %-20s  %9s  %s\n", "REPOSITORY", "TAG", "IMAGE ID", "CREATED",
		"SIZE", "SERVER");
	return shifter_each_image(print_image, &err) < 0 ? cli_fail_at(&err, "shifter images") : 0;
}

static int cmd_version(int argc, char **argv)
{
	argp_program_version_hook(stdout, NULL);
	return 0;
}

static const struct command rows[] = {
	{ "run", shifter_run, NULL, "run a command in an image" },
	{ "pull", cmd_pull_image, NULL, "fetch an image from a registry" },
	{ "images", cmd_list, NULL, "list the images" },
	{ "rmi", cmd_rm, NULL, "remove images" },
	{ "load", cmd_load, NULL, "take an image from docker save's file" },
	{ "login", cmd_login_to, NULL, "keep a user name and password for a registry" },
	{ "version", cmd_version, NULL, "print mlrun's version" },
};

static const struct commands commands = {
	.group = "shifter",
	.before = "Usage: shifter COMMAND [OPTION...] [ARG...]\n"
		  "       shifter --image=NAME [OPTION...] [COMMAND [ARG...]]\n"
		  "Run container images by Shifter's commands.\n\n",
	.after =
		"\n`shifter COMMAND --help` lists a command's options, `shifter --image=NAME --help` "
		"those\nof the other form; mlrun-shifter(1) has both.\n",
	.rows = rows,
	.n = ARRAY_LEN(rows),
};

static int is_command(const char *word)
{
	if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].name, word) == 0)
			return 1;
	return 0;
}

/* In a job for which Shifter's variables name an image, the first operand is a command in it. */
int cmd_shifter(int argc, char **argv)
{
	auto_strv struct strv list = STRV_INIT;
	auto_free char *wanted = shifter_image_wanted();
	int first = 1;

	shifter_split_interpreter_line(&argc, &argv, &list);
	while (!wanted && first < argc &&
		(strcmp(argv[first], "--debug") == 0 || strcmp(argv[first], "--verbose") == 0))
		first++;
	if (wanted || first >= argc || !is_command(argv[first])) {
		if (!wanted && argc < 2)
			return commands_run(&commands, argc, argv);
		return shifter_run_by_option(argc, argv, wanted);
	}
	if (first > 1)
		mlr_log_level = MLR_DEBUG;
	argv[first - 1] = argv[0];
	return commands_run(&commands, argc - first + 1, argv + first - 1);
}
