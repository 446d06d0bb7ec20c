/* mlrun tags: lists a repository's tags. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/escape.h"
#include "base/json.h"
#include "oci/ref.h"
#include "registry/registry.h"

struct args {
	struct cli_common common;
	struct cli_registry registry;
	const char *name;
	int json;
};

static const struct option_row options[] = { CLI_OPTION_JSON(struct args), { 0 } };
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "NAME",
	.s.doc = "List an image's tags in its registry.",
	.registry = offsetof(struct args, registry),
	.s.operands = { OPT(struct args, name) },
	.s.needed = 1,
	.s.missing = "a name is missing",
	.s.surplus = "one name at a time",
};

/* Natural order: 2.9 before 2.10. */
static int compare(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int print(const struct oci_ref *ref, const struct strv *tags, int json)
{
	if (!json) {
		for (size_t i = 0; i < tags->n; i++) {
			cli_print_line(tags->v[i]);
		}
		return fflush(stdout) == 0 ? 0 : CLI_FAILED;
	}
	return cli_print_json(json_pack("{s:s, s:s, s:o}", "registry", ref->registry, "repository",
		ref->repository, "tags", mlr_json_texts(tags)));
}

static int list(struct args *a, struct oci_ref *ref, struct strv *ret, struct mlr_error *err)
{
	auto_registry struct registry *reg = NULL;

	TRY(cli_registry_load(&a->registry, a->name, err));
	TRY(oci_ref_parse(a->name, ref, err));
	reg = registry_new(ref, &a->registry.options);
	return registry_tags(reg, ret, err);
}

int cmd_tags(int argc, char **argv)
{
	static struct args a = { .registry = CLI_REGISTRY_INIT };
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_strv struct strv tags = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	cli_options_parse(argc, argv, &syntax, &a);
	if (list(&a, &ref, &tags, &err) < 0)
		return cli_fail_at(&err, "tags '%s'", a.name);
	sort_all(tags.v, tags.n, compare);
	return print(&ref, &tags, a.json);
}
