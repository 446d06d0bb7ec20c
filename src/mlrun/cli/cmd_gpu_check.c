/* mlrun gpu check: judges whether an image works with this machine's GPUs, or a recorded
 * machine's. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/cleanup.h"
#include "base/config.h"
#include "base/json.h"
#include "exec/parts.h"
#include "exec/exec.h"
#include "gpu/check/check.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/profile.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Exit statuses besides 0 and CLI_FAILED. */
enum { DOES_NOT_WORK = 1 };

static const char *const verdicts[] = {
	[GPU_OK] = "ok",
	[GPU_NOT_NEEDED] = "not needed",
	[GPU_DOUBTFUL] = "doubtful",
	[GPU_FAILS] = "fails",
};

struct args {
	struct cli_common common;
	const char *image, *profile, *gpu;
	int json;
};

static void parse_image(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (a->image)
		argp_error(state, "expected one image, and '%s' is another", arg);
	a->image = arg;
}

static const struct cli_option options[] = {
	{ "gpu", 0, "WORD", 0, "--gpu of mlrun exec: auto, all, a list of devices", 0,
		CLI_TO(struct args, gpu) },
	{ "profile", 0, "FILE", 0, "check with a machine recorded by mlrun profile, not this one",
		0, CLI_TO(struct args, profile) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};

static const struct cli_syntax syntax = {
	.options = options,
	.args_doc = "IMAGE",
	.doc = "Check whether an image would work with this machine's GPUs, and say what to do if not.\v"
	       "Starts nothing. The exit status is 0 if the image works or needs no GPU, 1 if not, 125 if that "
	       "is unknown.",
	.operands = { CLI_TO_CALL(parse_image) },
	.needed = 1,
	.missing = "expected an image",
};

static int open_inside(void *ctx, const char *path)
{
	return rootfs_open(ctx, path);
}

static int list_inside(void *ctx, const char *path, struct strv *ret)
{
	return rootfs_list(ctx, path, ret);
}

/* Plan the image, the environment of its container and its GPUs. */
static int plan_image(const struct args *a, struct config *config, struct plan *p,
	struct store_facts *facts, struct gpu_request *q, struct mlr_error *err)
{
	struct exec_options o = {
		.store = a->common.store, .image = a->image, .config = config, .gpu = a->gpu
	};
	int r = config_load(config, err);

	caller_identity(p, 0);
	if (r == 0)
		r = exec_defaults(config, &o, err);
	if (r == 0)
		r = rootfs_plan(a->common.store, config, a->image, 0, p, facts, err);
	if (r < 0)
		return r;
	labels_read(&facts->config.labels, &o, p);
	q->word = o.gpu;
	q->origin = o.gpu_origin;
	return environment_plan(&o, q->caller, &facts->config.env, p, err);
}

static int print_json(const struct args *a, const struct gpu_report *r)
{
	json_t *findings = json_array();

	for (size_t i = 0; i < r->n; i++)
		json_array_append_new(findings,
			json_pack("{s:s, s:s, s:o, s:o}", "subject", r->v[i].subject, "verdict",
				verdicts[r->v[i].verdict], "text", mlr_json_text(r->v[i].text),
				"mend", mlr_json_text(r->v[i].mend)));
	return cli_print_json(json_pack("{s:o, s:o, s:s, s:o}", "image", mlr_json_text(a->image),
		"profile", mlr_json_text(a->profile), "verdict", verdicts[gpu_report_verdict(r)],
		"findings", findings));
}

static int print_text(const struct args *a, const struct gpu_report *r)
{
	enum gpu_verdict verdict = gpu_report_verdict(r);

	for (size_t i = 0; i < r->n; i++) {
		printf("%-10s %-13s ", verdicts[r->v[i].verdict], r->v[i].subject);
		cli_print_safe(r->v[i].text);
		putchar('\n');
		if (r->v[i].mend) {
			printf("%-24s -> ", "");
			cli_print_safe(r->v[i].mend);
			putchar('\n');
		}
	}
	if (verdict == GPU_NOT_NEEDED) {
		puts("the image needs no GPU");
		return 0;
	}
	printf("the image %s ", verdict == GPU_FAILS ? "does not work" : "works");
	if (a->profile) {
		printf("on the machine of '");
		cli_print_safe(a->profile);
		putchar('\'');
	} else {
		printf("here");
	}
	puts(verdict == GPU_DOUBTFUL ? ", with the doubts above" : "");
	return 0;
}

int cmd_gpu_check(int argc, char **argv)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(gpu_report_done) struct gpu_report report = GPU_REPORT_INIT;
	auto_call(store_facts_done) struct store_facts facts = STORE_FACTS_INIT;
	auto_call(config_done) struct config config = CONFIG_INIT;
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	char *const nobody[] = { NULL };
	struct gpu_image image = { .open = open_inside, .list = list_inside, .ctx = &p };
	struct gpu_request q = { .image_env = &facts.config.env, .image = &image };
	int r;

	plan_init(&p);
	cli_options_parse(argc, argv, &syntax, &a);
	/* This job's share does not concern another machine. */
	q.caller = a.profile ? nobody : environ;
	r = plan_image(&a, &config, &p, &facts, &q, &err);
	if (r == 0)
		r = a.profile ? gpu_profile_read(a.profile, &m, &err)
			      : gpu_machine_read(gpu_root(), &m, &err);
	if (r < 0)
		return cli_fail_at(&err, "gpu check '%s'", a.image);
	gpu_check(&q, &p, &m, a.profile ? NULL : gpu_nvml_fill, &report);
	rootfs_look_done();
	r = a.json ? print_json(&a, &report) : print_text(&a, &report);
	return r ? r : gpu_report_verdict(&report) == GPU_FAILS ? DOES_NOT_WORK : 0;
}
