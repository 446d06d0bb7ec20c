/* mlrun validate: judges whether an image works on this machine, or a recorded one; mlrun gpu
 * check, whether it works with the GPUs. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/escape.h"
#include "base/config.h"
#include "base/home.h"
#include "base/json.h"
#include "doctor/image.h"
#include "exec/parts.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/profile.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"

/* Exit statuses besides 0 and CLI_FAILED. */
enum { DOES_NOT_WORK = 1 };

static const char *const verdicts[] = {
	[DOCTOR_PASS] = "ok",
	[DOCTOR_NOT_NEEDED] = "not needed",
	[DOCTOR_WARNING] = "doubtful",
	[DOCTOR_FAILURE] = "fails",
};

struct image_check {
	struct cli_common common;
	const char *image, *profile, *gpu;
	const char *partition; /* the profile of that name; validate only */
	int json;
	int whole; /* validate: not only GPUs */
};

static const struct option_row check_options[] = {
	{ "gpu", 0, "WORD", 0, "--gpu of mlrun exec: auto, all, a list of devices", 0,
		OPT(struct image_check, gpu) },
	{ "profile", 0, "FILE", 0, "check with a machine recorded by mlrun profile, not this one",
		0, OPT(struct image_check, profile) },
	CLI_OPTION_JSON(struct image_check),
	{ 0 },
};

#define OF_IMAGE                                                                                \
	.s.args_doc = "IMAGE", .s.operands = { OPT(struct image_check, image) }, .s.needed = 1, \
	.s.missing = "expected an image", .s.surplus = "one image at a time"

static const struct cli_syntax gpu_check_syntax = {
	OF_IMAGE,
	.s.options = check_options,
	.s.doc =
		"Check whether an image would work with this machine's GPUs, and say what to do if not.\v"
		"Starts nothing. The exit status is 0 if the image works or needs no GPU, 1 if not, 125 if that "
		"is unknown.",
};

static const struct option_row validate_options[] = {
	{ "partition", 0, "NAME", 0,
		"check with a node of this partition, whose profile the site or the user has", 0,
		OPT(struct image_check, partition) },
	{ 0 },
};
static const struct cli_syntax validate_syntax = {
	OF_IMAGE,
	.s.options = validate_options,
	.s.shared = { { check_options, 0 } },
	.s.doc =
		"Check whether an image would work on this machine: its labels, command, loader, MPI and GPUs.\v"
		"Starts nothing. The exit status is 0 if the image works, 1 if not, 125 if that is "
		"unknown.",
};

/* The profile of a node of this partition, the user's or the site's; to free(). */
static int find_profile(const char *partition, char **ret, struct mlr_error *err)
{
	auto_free char *dir = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL);
	auto_free char *own = dir ? xasprintf("%s/mlrun/profiles/%s.json", dir, partition) : NULL;
	auto_free char *sites = xasprintf(SYSCONFDIR "/mlrun/profiles/%s.json", partition);

	if (!*partition || strchr(partition, '/'))
		return mlr_fail(err, EINVAL, "--partition '%s' is no name", partition);
	if (own && access(own, F_OK) == 0) {
		*ret = take_ptr(&own);
		return 0;
	}
	if (access(sites, F_OK) == 0) {
		*ret = take_ptr(&sites);
		return 0;
	}
	mlr_fail(err, ENOENT, "there is no profile of partition '%s'", partition);
	mlr_hint(err, "srun -p %s mlrun profile -o %s; for all users %s", partition,
		own ? own : "FILE", sites);
	return -ENOENT;
}

/* Names of the machine's libraries of MPI and its kin, from a profile. Returns 0 or -EPROTO. */
static int read_libraries(const char *profile, struct strv *ret)
{
	json_auto_t *whole = json_load_file(profile, 0, NULL);
	const json_t *list = json_object_get(json_object_get(whole, "fabric"), "libraries");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(list, i), "name"));

		if (name)
			strv_add(ret, name);
	}
	return json_is_array(list) ? 0 : -EPROTO;
}

/* Plan the image, the environment of its container and its GPUs. */
static int plan_image(const struct image_check *a, struct config *config, struct plan *p,
	struct store_facts *facts, struct gpu_request *q, struct mlr_error *err)
{
	struct exec_options o = {
		.store = a->common.store, .image = a->image, .config = config, .gpu = a->gpu
	};

	TRY(config_load(config, err));
	caller_identity(p, 0);
	TRY(exec_defaults(config, &o, err));
	TRY(rootfs_plan(a->common.store, config, a->image, 0, p, facts, err));
	labels_read(&facts->config.labels, &o, p);
	q->word = o.gpu;
	q->origin = o.gpu_origin;
	return environment_plan(&o, q->caller, &facts->config.env, p, err);
}

/* An image that needs no GPU is validated all the same. */
static enum doctor_verdict verdict_of(const struct image_check *a, const struct doctor_report *r)
{
	enum doctor_verdict v = doctor_worst(r);

	return v == DOCTOR_NOT_NEEDED && a->whole ? DOCTOR_PASS : v;
}

static int print_json(const struct image_check *a, const struct doctor_report *r)
{
	return cli_print_json(json_pack("{s:o, s:o, s:s, s:o}", "image", mlr_json_text(a->image),
		"profile", mlr_json_text(a->profile), "verdict", verdicts[verdict_of(a, r)],
		"findings",
		MLR_JSON_LIST(i, r->n,
			json_pack("{s:s, s:s, s:o, s:o}", "subject", r->v[i].check, "verdict",
				verdicts[r->v[i].verdict], "text", mlr_json_text(r->v[i].what),
				"mend", mlr_json_text(r->v[i].fix)))));
}

static void print_findings(const struct doctor_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		printf("%-10s %-13s ", verdicts[r->v[i].verdict], r->v[i].check);
		cli_print_line(r->v[i].what);
		if (r->v[i].fix) {
			printf("%-24s -> ", "");
			cli_print_line(r->v[i].fix);
		}
	}
}

static int print_text(const struct image_check *a, const struct doctor_report *r)
{
	enum doctor_verdict verdict = verdict_of(a, r);

	print_findings(r);
	if (verdict == DOCTOR_NOT_NEEDED) {
		puts("the image needs no GPU");
		return 0;
	}
	printf("the image %s ", verdict == DOCTOR_FAILURE ? "does not work" : "works");
	if (a->profile) {
		printf("on the machine of '");
		escape_print(stdout, a->profile);
		putchar('\'');
	} else {
		printf("here");
	}
	puts(verdict == DOCTOR_WARNING ? ", with the doubts above" : "");
	return 0;
}

static int check(const struct image_check *a)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(doctor_report_done) struct doctor_report report = { 0 };
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	auto_call(config_done) struct config config = { 0 };
	auto_strv struct strv libs = STRV_INIT;
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	char *const nobody[] = { NULL };
	struct gpu_image image = exec_gpu_image(&p);
	struct gpu_request q = { .image_env = &facts.config.env, .image = &image };
	int r;

	plan_init(&p);
	/* This job's share does not concern another machine. */
	q.caller = a->profile ? nobody : environ;
	r = plan_image(a, &config, &p, &facts, &q, &err);
	if (r == 0)
		r = a->profile ? gpu_profile_read(a->profile, &m, &err)
			       : gpu_machine_read(gpu_root(), &m, &err);
	if (r < 0)
		return cli_fail_at(&err, "%s '%s'", a->whole ? "validate" : "gpu check", a->image);
	image.processors = m.processors;
	if (a->whole)
		doctor_image(&p, &image, &facts.config, a->profile ? NULL : "",
			a->profile && read_libraries(a->profile, &libs) == 0 ? &libs : NULL,
			&report);
	if (a->whole && !a->profile)
		doctor_image_start(a->image, a->common.store, &report);
	doctor_image_gpus(&q, &p, &m, a->profile ? NULL : gpu_nvml_fill, &report);
	rootfs_look_done();
	r = a->json ? print_json(a, &report) : print_text(a, &report);
	return r ? r : doctor_worst(&report) == DOCTOR_FAILURE ? DOES_NOT_WORK : 0;
}

int cmd_validate(int argc, char **argv)
{
	auto_free char *profile = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct image_check a = { .whole = 1 };

	cli_options_parse(argc, argv, &validate_syntax, &a);
	if (!a.partition)
		return check(&a);
	if (a.profile) {
		mlr_fail(&err, EINVAL, "--partition and --profile exclude each other");
		return cli_fail(&err);
	}
	if (find_profile(a.partition, &profile, &err) < 0)
		return cli_fail(&err);
	a.profile = profile;
	return check(&a);
}

int cmd_gpu_check(int argc, char **argv)
{
	struct image_check a = { .whole = 0 };

	cli_options_parse(argc, argv, &gpu_check_syntax, &a);
	return check(&a);
}
