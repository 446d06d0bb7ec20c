#include "cli/cli.h"
#include "cli/options.h"

#include "base/escape.h"
#include "base/json.h"
#include "pull/repair.h"
#include "rootfs/verify.h"
#include "runtime/probe.h"

struct args {
	struct cli_common common;
	struct cli_registry registry;
	const char *verb;
	int repair, json;
};

static void parse_verb(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (a->verb || strcmp(arg, "verify") != 0)
		argp_error(state, "'%s': verify is the only thing to do with a store", arg);
	a->verb = arg;
}

static const struct option_row options[] = {
	{ "repair", 0, 0, 0, "remove damaged data and fetch it again", 0,
		OPT(struct args, repair) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "verify",
	.s.doc = "Check the store for damage: read and hash everything again.",
	.registry = offsetof(struct args, registry),
	.s.operands = { OPT_CALL(parse_verb) },
	.s.needed = 1,
	.s.missing = "missing what to do with the store: verify",
};

static void tell_path(void *ctx, const char *path)
{
	mlr_debug("verifying '%s'", path);
}

static void tell_removed(void *ctx, const char *path)
{
	mlr_info("removed '%s'", path);
}

static void tell_closed(void *ctx, const char *path)
{
	mlr_info("closed '%s' to other users", path);
}

static void tell_in_use(void *ctx, const char *path, const char *image, long pid)
{
	mlr_warning("'%s' was left in place: process %ld runs in '%s'", path, pid, image);
}

static void tell_fetched(void *ctx, const char *image)
{
	mlr_info("fetched what '%s' needs", image);
}

static void tell_failed(void *ctx, const char *image, const struct mlr_error *err)
{
	cli_fail(err);
}

static int repair(struct store *st, const struct rootfs_report *report, const struct args *a,
	struct mlr_error *err)
{
	static const struct repair_watch told = { NULL, tell_removed, tell_closed, tell_in_use,
		tell_fetched, tell_failed };
	const struct pull_options opt = { .registry = a->registry.options,
		.jobs = PULL_JOBS,
		.probe = runtime_probe,
		.cancel = &cli_stop_signal };
	const struct pull_watch watch = { 0 };

	return pull_repair(st, report, &opt, &watch, &told, err);
}

static const char *const verdicts[] = {
	[ROOTFS_BROKEN] = "broken", [ROOTFS_OPEN] = "open", [ROOTFS_UNKNOWN] = "unknown"
};

static int print_json(struct store *st, const struct rootfs_report *r, int repaired)
{
	json_t *findings = json_array();

	for (size_t i = 0; i < r->n; i++) {
		const struct rootfs_finding *f = &r->v[i];
		auto_strv struct strv names = STRV_INIT;

		pull_repair_needed_by(st, f->path, &names);
		json_array_append_new(findings,
			json_pack("{s:o, s:s, s:o, s:o, s:o}", "path", mlr_json_text(f->path),
				"verdict", verdicts[f->verdict], "why", mlr_json_text(f->why),
				"files", mlr_json_texts(&f->files), "images",
				mlr_json_texts(&names)));
	}
	return cli_print_json(json_pack("{s:o, s:b, s:b, s:I, s:o}", "store",
		mlr_json_text(store_path(st)), "ok", r->n == 0, "repaired", repaired, "checked",
		(json_int_t)r->checked, "findings", findings));
}

static void print_text(struct store *st, const struct rootfs_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rootfs_finding *f = &r->v[i];
		auto_strv struct strv names = STRV_INIT;

		pull_repair_needed_by(st, f->path, &names);
		printf("%s: %s%s", f->path,
			f->verdict == ROOTFS_UNKNOWN ? "" : verdicts[f->verdict],
			f->verdict == ROOTFS_UNKNOWN ? "" : ": ");
		cli_print_line(f->why);
		for (size_t j = 0; j < f->files.n; j++) {
			printf("  ");
			cli_print_line(f->files.v[j]);
		}
		for (size_t j = 0; j < names.n; j++)
			printf("  needed by '%s'\n", names.v[j]);
	}
}

static void tell(const struct rootfs_report *r, const struct args *a)
{
	struct mlr_error err;

	if (r->n == 0) {
		mlr_info("%zu parts of the store are as they should be", r->checked);
		return;
	}
	mlr_fail(&err, EBADMSG, "%zu of %zu parts of the store are not as they should be", r->n,
		r->checked);
	if (!a->repair)
		mlr_hint(&err, "mlrun store verify --repair fetches them again");
	cli_fail(&err);
}

static int verify(struct store *st, const struct args *a, struct mlr_error *err)
{
	auto_call(rootfs_report_done) struct rootfs_report report = { 0 };
	struct rootfs_verify_options opt = { .tick = tell_path, .cancel = &cli_stop_signal };
	int repaired = 0, status = 0;
	int r = rootfs_verify(st, &opt, &report, err);

	if (r == 0 && a->repair && report.n > 0) {
		repaired = 1;
		if (!a->json)
			print_text(st, &report);
		r = repair(st, &report, a, err);
		rootfs_report_done(&report);
		if (r == 0)
			r = rootfs_verify(st, &opt, &report, err);
	}
	if (r < 0)
		return r;
	if (a->json)
		status = print_json(st, &report, repaired);
	else
		print_text(st, &report);
	tell(&report, a);
	return report.n > 0 || status != 0;
}

int cmd_store(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	static struct args a = { .registry = CLI_REGISTRY_INIT };
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	if (cli_registry_load(&a.registry, NULL, &err) < 0 ||
		cli_open_store(a.common.store, &st, &err) < 0)
		return cli_fail(&err);
	cli_stop_catch();
	r = verify(st, &a, &err);
	if (a.repair)
		store_settle(st);
	if (r < 0)
		cli_fail_at(&err, "store verify");
	if (cli_stop_signal)
		return 128 + cli_stop_signal;
	return r ? CLI_FAILED : 0;
}
