/* mlrun pull, and mlrun import, a pull from a file. */
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/options.h"

#include "base/json.h"
#include "config.h"
#include "oci/platform.h"
#include "oci/name.h"
#include "pull/pull.h"
#include "runtime/probe.h"
#include "store/facts.h"

struct args {
	struct cli_common common;
	struct strv images;
	const char *file, *as; /* import's FILE and NAME, which may be NULL */
	struct pull_options pull;
	int json;
	struct cli_registry registry;
};

static void parse_format(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->pull.format = store_format_parse(arg);
	if (!a->pull.format && strcmp(arg, "auto") != 0)
		argp_error(state, "--format takes auto, layers, dir or squashfs, not '%s'", arg);
}

static int read_spool(const char *text, void *field)
{
	int64_t size = INT64_MAX;

	if (strcmp(text, "never") != 0)
		TRY(cli_read_size(text, &size));
	*(uint64_t *)field = size == 0 ? 1 : (uint64_t)size;
	return 0;
}

static const struct option_row options[] = {
	{ "platform", 0, "OS/ARCH[/VARIANT]", 0, "the image's variant; default: this machine's", 1,
		OPT(struct args, pull.platform) },
	{ "jobs", 0, "N", 0, "layers at once; default: 3", 1,
		OPT_COUNT(struct args, pull.jobs, 1, PULL_JOBS_MAX) },
	{ "keep-blobs", 0, 0, 0, "keep the compressed layers in the store as well", 1,
		OPT(struct args, pull.keep_blobs) },
	{ "spool", 0, "SIZE", 0,
		"let a later pull continue interrupted layers of at least this size, or never; default: 1GiB",
		1,
		OPT_READ(struct args, pull.spool_from, read_spool,
			"a size such as 500MB or 2GiB, or never") },
	{ "format", 0, "FORMAT", 0,
		"how the store keeps the image: layers, dir, squashfs; default: auto, which is squashfs "
		"on a network file system and layers elsewhere",
		1, OPT_CALL(parse_format) },
	CLI_OPTION_QUIET(2),
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax pull_syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE...",
	.s.doc = "Fetch images from their registries into the store.",
	.registry = offsetof(struct args, registry),
	.s.operands = { OPT(struct args, images) },
	.s.needed = 1,
	.s.missing = "an image is missing",
};

/* Warn now rather than in a job that squashfs images cannot be mounted here; other nodes may be
 * able to. */
static void tell_fuse(void)
{
#if HAVE_SQUASHFUSE
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		mlr_info(
			"exec cannot start it on this machine: /dev/fuse: %s; --format=layers or dir does without",
			strerror(errno));
#else
	mlr_info(
		"this mlrun was built without libsquashfuse and cannot start it; --format=layers or dir does without");
#endif
}

static void tell(const struct pull_result *r, double seconds)
{
	char size[CLI_SIZE_SIZE];

	cli_tell_replaced(r->image.name, r->replaced);
	cli_size(r->image.size, size);
	if (r->store)
		mlr_info("'%s' is up to date in store '%s': %s, %s", r->image.name, r->store,
			r->image.manifest, size);
	else if (r->up_to_date)
		mlr_info("'%s' is up to date: %s, %s", r->image.name, r->image.manifest, size);
	else
		mlr_info("pulled '%s': %s, %s in %.2f s%s", r->image.name, r->image.manifest, size,
			seconds, r->formats == STORE_FORMAT_SQUASHFS ? ", as squashfs" : "");
	if (r->formats == STORE_FORMAT_SQUASHFS)
		tell_fuse();
}

static int print_json(const struct pull_result *r, double seconds)
{
	const struct store_image *im = &r->image;

	return cli_print_json(json_pack(
		"{s:s, s:s, s:s?, s:s, s:I, s:s, s:o, s:I, s:I, s:I, s:f, s:o}", "name", im->name,
		"digest", im->manifest, "index", im->index, "platform", im->platform, "size",
		(json_int_t)im->size, "status", r->up_to_date ? "up to date" : "pulled", "formats",
		cli_formats(r->formats), "layers", (json_int_t)r->layers, "layers_fetched",
		(json_int_t)r->layers_fetched, "bytes_fetched", (json_int_t)r->bytes_fetched,
		"seconds", (double)(int64_t)(seconds * 1000) / 1000, "store",
		mlr_json_text(r->store)));
}

static enum progress_style style_of(const struct args *a)
{
	if (a->common.quiet)
		return PROGRESS_NONE;
	/* A transcript and a redrawn display do not mix. */
	return isatty(STDERR_FILENO) && mlr_log_level < MLR_DEBUG ? PROGRESS_TERMINAL
								  : PROGRESS_LINES;
}

static int pull_one(struct store *st, const struct oci_name *name, const struct args *a)
{
	auto_call(pull_result_done) struct pull_result result = { 0 };
	struct progress *progress = progress_new(style_of(a));
	struct pull_watch watch = progress_watch(progress);
	struct mlr_error err = MLR_ERROR_INIT;
	double start = mlr_now();
	int r;

	r = pull_image(st, name, &a->pull, &watch, &result, &err);
	progress_free(progress);
	if (r < 0)
		return cli_fail(&err);
	if (!a->common.quiet)
		tell(&result, mlr_now() - start);
	return a->json ? print_json(&result, mlr_now() - start) : 0;
}

/* Check all names and platforms first, not after an hour of pulling the others. */
static int check_args(const struct args *a, struct mlr_error *err)
{
	/* Apptainer's: `pull FILE.sif docker://IMAGE`. */
	if (a->images.n > 1 && path_ends(a->images.v[0], ".sif")) {
		mlr_fail(err, EINVAL, "'%s' is a file's name, and images go into the store",
			a->images.v[0]);
		return mlr_hint(err, "mlrun pull %s; mlrun exec %s COMMAND", a->images.v[1],
			a->images.v[1]);
	}
	struct oci_platform p;

	for (size_t i = 0; i < a->images.n; i++) {
		auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;

		TRY(oci_name_parse(a->images.v[i], &name, err));
		TRY(cli_refuse_file(a->images.v[i], err));
	}
	return a->pull.platform ? oci_platform_parse(a->pull.platform, &p, err) : 0;
}

static int pull_text(struct store *st, const char *text, const struct args *a)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (oci_name_parse(text, &name, &err) < 0)
		return cli_fail(&err);
	return pull_one(st, &name, a);
}

static int run(struct args *a)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int status = 0;

	if (cli_registry_load(&a->registry, a->images.v[0], &err) < 0 || check_args(a, &err) < 0 ||
		store_open(a->common.store, 1, &st, &err) < 0)
		return cli_fail(&err);
	a->pull.registry = a->registry.options;
	cli_stop_catch();
	for (size_t i = 0; i < a->images.n && !cli_stop_signal; i++)
		if (pull_text(st, a->images.v[i], a) != 0)
			status = CLI_FAILED;
	store_settle(st);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}

/* --- import: a pull from a file that may be given a name -------------------------------------- */

static const struct cli_syntax import_syntax = {
	.s.options = options,
	.s.args_doc = "FILE [NAME]",
	.s.doc =
		"Bring an image from a file or a directory into the store.\vFILE is an OCI layout or an "
		"archive of one, what docker save writes, or a tar of a root directory, compressed or "
		"not; - is standard input. NAME defaults to the name in FILE.",
	.s.operands = { OPT(struct args, file), OPT(struct args, as) },
	.s.needed = 1,
	.s.missing = "a file is missing",
	.s.surplus = "a file and a name are expected, and no more",
};

/* Parse FILE, perhaps with a prefix for its format; images of registries are not imported. */
static int parse_file(const char *text, struct oci_name *ret, struct mlr_error *err)
{
	static const char *const prefixes[] = { "oci:", "oci-archive:", "docker-archive:" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return oci_name_parse(text, ret, err);
	if (strncmp(text, "docker://", 9) == 0)
		return mlr_fail(err, EINVAL, "'%.200s' is not a file: mlrun pull brings it", text);
	if (strcmp(text, "-") != 0 && access(text, F_OK) < 0 &&
		oci_name_parse(text, ret, NULL) == 0) {
		mlr_fail_errno(err, "import '%.200s'", text);
		return mlr_hint(
			err, "mlrun pull %s brings an image of that name from its registry", text);
	}
	ret->transport = OCI_ANY_FILE;
	ret->path = xstrdup(text);
	return 0;
}

static int run_import(struct args *a)
{
	auto_store struct store *st = NULL;
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(oci_ref_done) struct oci_ref as = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	if (parse_file(a->file, &name, &err) < 0 ||
		(a->as && cli_parse_new_name(a->as, &as, &err) < 0) ||
		store_open(a->common.store, 1, &st, &err) < 0)
		return cli_fail(&err);
	cli_stop_catch();
	a->pull.as = a->as ? &as : NULL;
	status = pull_one(st, &name, a);
	store_settle(st);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}

static int run_command(
	const struct cli_syntax *syntax, int (*act)(struct args *a), int argc, char **argv)
{
	static struct args a = { .registry = CLI_REGISTRY_INIT,
		.pull = { .jobs = PULL_JOBS, .probe = runtime_probe, .cancel = &cli_stop_signal } };

	cli_options_parse(argc, argv, syntax, &a);
	return act(&a);
}

int cmd_pull(int argc, char **argv)
{
	return run_command(&pull_syntax, run, argc, argv);
}

int cmd_import(int argc, char **argv)
{
	return run_command(&import_syntax, run_import, argc, argv);
}
