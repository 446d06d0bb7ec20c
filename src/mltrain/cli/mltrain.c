/* mltrain's main: finds the command's row and calls it. */
#include "cli/mltrain.h"

#include "base/escape.h"
#include "base/program.h"
#include "base/spelling.h"
#include "config.h"
#include "backend/backend.h"
#include "data/image.h"
#include "tensor/plugin.h"

#include <math.h>

#define SPIN_COUNT "5000" /* some 0.1 ms */

static int told; /* a failure was reported */

int main_fail(const struct mlr_error *err)
{
	mlr_log_error(err);
	told = 1;
	return EXIT_BROKEN;
}

/* Become a command's own program, of libexec. Returns EXIT_BROKEN. */
static int become(const char *command, char **argv)
{
	auto_free char *program = xasprintf("mltrain-%s", command), *path = program_path(program);
	struct mlr_error err = MLR_ERROR_INIT;

	execv(path, argv);
	mlr_fail_errno(&err, "start '%s'", path);
	if (err.code == ENOENT && strcmp(command, "serve") == 0)
		mlr_hint(&err,
			"this mltrain was built without it: install libmicrohttpd-dev and "
			"libhiredis-dev (Debian's names) and build it with --with-serve");
	return main_fail(&err);
}

static const struct command {
	const char *name;
	/* NULL: a program of its own, whose libraries take longer to load than mltrain takes for
	 * everything else before it trains */
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "train", cmd_train, "train a network on a data set and test it" },
	{ "eval", cmd_eval, "test a checkpoint on a data set" },
	{ "bench", cmd_bench, "measure speed against this machine's limits" },
	{ "fetch", NULL, "download data sets" },
	{ "export", cmd_export, "write a checkpoint as ONNX, or for PyTorch" },
	{ "import", cmd_import, "make a checkpoint of PyTorch's weights" },
	{ "net", cmd_net, "show a network's layers and recipe" },
	{ "predict", cmd_predict, "print what pictures show" },
	{ "serve", NULL, "answer predictions over HTTP" },
	{ "load", NULL, "put load on an HTTP server and measure its answers" },
	{ "report", cmd_report, "make an HTML page of the logs of runs" },
};

void print_accuracy(int64_t wrong, uint32_t count)
{
	double error = 100.0 * (double)wrong / count;

	printf("test accuracy %.2f %% (error %.2f %%)\n", 100 - error, error);
}

static char there(const char *plugin)
{
	auto_free char *path = plugin_path(plugin);

	return path ? '+' : '-';
}

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "mltrain %s (backends: %s) %cmpi %s\n", PACKAGE_VERSION, backend_names(),
		there("mpi"), image_formats());
}

static void print_help(FILE *out)
{
	fprintf(out,
		"Usage: mltrain COMMAND [OPTION...]\n"
		"Train a convolutional network to classify images.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(out,
		"\n`mltrain COMMAND --help` lists the options of a command; mltrain(1) is the manual.\n"
		"`mltrain --version` prints the version and the backends.\n");
}

/*
 * Make libgomp's threads spin less. At the end of every loop they spin for milliseconds, which on a
 * busy machine takes the cores from the thread that they wait for: five times slower beside a load
 * of 8 on two cores. libgomp reads GOMP_SPINCOUNT (its manual) when it is loaded, so this program
 * starts again with a lower one, unless the user has set it.
 */
static void spin_less(char **argv)
{
	auto_free char *self = NULL;

	if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
		return;
	self = realpath("/proc/self/exe", NULL);
	if (!self || setenv("GOMP_SPINCOUNT", SPIN_COUNT, 1) < 0)
		return;
	execv(self, argv); /* a failure costs only speed */
}

static int unknown_command(const char *name)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct spelling s = spelling_of(name, strlen(name));

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		spelling_try(&s, commands[i].name);
	mlr_fail(&err, EINVAL, "'%s' is not a command", name);
	if (s.near)
		mlr_hint(&err, "is %s meant? mltrain --help lists them", s.near);
	else
		mlr_hint(&err, "mltrain --help lists them");
	main_fail(&err);
	return EXIT_USAGE;
}

/* Fail if output could not be written, argp's too; this is the last chance to notice. */
static void close_stdout(void)
{
	int failed = ferror(stdout);
	struct mlr_error err;

	if (fclose(stdout) != 0)
		mlr_fail_errno(&err, "write to stdout");
	else if (failed) /* its errno is lost */
		mlr_fail(&err, EIO, "not all of the answer could be written to stdout");
	else
		return;
	if (!told)
		main_fail(&err);
	_exit(EXIT_BROKEN);
}

int main(int argc, char **argv)
{
	fds_open_standard();
	spin_less(argv);
	mlr_log_init("mltrain");
	atexit(close_stdout);
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version_hook = print_version;
	setvbuf(stdout, NULL, _IOLBF, 0); /* so that a job's log gets lines at once */
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0 ||
		strcmp(argv[1], "-h") == 0) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_USAGE : 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
		strcmp(argv[1], "version") == 0) {
		print_version(stdout, NULL);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run ? commands[i].run(argc - 1, argv + 1)
					       : become(argv[1], argv + 1);
	return unknown_command(argv[1]);
}
