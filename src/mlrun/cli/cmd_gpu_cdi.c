/* mlrun gpu cdi: writes this machine's GPUs as a CDI file for other runtimes, or lists the devices
 * of the existing files. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/json.h"
#include "cdi/cdi.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"

struct args {
	struct cli_common common;
	const char *output;
	int list, json;
};

static const struct option_row options[] = {
	{ "output", 'o', "FILE", 0, "write it to FILE, as /etc/cdi/nvidia.json", 0,
		OPT(struct args, output) },
	{ "list", 0, 0, 0, "list the devices in this machine's CDI files", 0,
		OPT(struct args, list) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (a->list && a->output)
		argp_error(state, "--list and -o exclude each other");
}

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc =
		"Describe this machine's GPUs in a file of the Container Device Interface, for Podman, Docker "
		"and others.",
	.s.surplus = "expected no argument",
	.s.check = check,
};

static int list_devices(int as_json)
{
	auto_strv struct strv names = STRV_INIT, problems = STRV_INIT;

	cdi_list(&names, &problems);
	if (as_json)
		return cli_print_json(json_pack("{s:o, s:o}", "devices", mlr_json_texts(&names),
			"problems", mlr_json_texts(&problems)));
	for (size_t i = 0; i < problems.n; i++)
		mlr_warning("%s", problems.v[i]);
	for (size_t i = 0; i < names.n; i++)
		puts(names.v[i]);
	return 0;
}

static int write_file(const char *path, json_t *spec, struct mlr_error *err)
{
	if (cli_write_json(path, spec, JSON_INDENT(2), err) == 0)
		return 0;
	if (err->code == ENOENT)
		mlr_hint(err, "the directory is missing: mkdir -p /etc/cdi");
	else if (err->code == EACCES)
		mlr_hint(err, "as root: sudo mlrun gpu cdi -o %s", path);
	return -err->code;
}

/* A file of NVIDIA's own tool may describe the same devices; then runtimes accept neither. */
static void tell_of_another(void)
{
	auto_strv struct strv names = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	strv_add(&names, "nvidia.com/gpu=all");
	if (cdi_check(&names, &err) == -EEXIST)
		mlr_log_failure(MLR_WARNING, &err, ": remove one of them");
}

static int make(const char *output, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	json_auto_t *spec = NULL;
	int r;

	TRY(gpu_machine_read(gpu_root(), &m, err));
	TRY(cdi_spec(&m, &spec, err));
	for (size_t i = 0; i < m.warnings.n; i++)
		mlr_warning("%s", m.warnings.v[i]);
	if (output) {
		r = write_file(output, spec, err);
		if (r == 0)
			tell_of_another();
		return r;
	}
	json_dumpf(spec, stdout, JSON_INDENT(2));
	putchar('\n');
	return 0;
}

int cmd_gpu_cdi(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (a.list)
		return list_devices(a.json);
	if (make(a.output, &err) == 0)
		return 0;
	return cli_fail_at(&err, "gpu cdi");
}
