#include "cli/cli.h"
#include "cli/options.h"
#include "oci/ref.h"

struct args {
	struct cli_common common;
	const char *ref;
};

static const struct cli_syntax syntax = {
	.s.args_doc = "REF",
	.s.doc = "Print the parts of an image name as JSON: registry, repository, tag, digest.",
	.s.operands = { OPT(struct args, ref) },
	.s.needed = 1,
	.s.missing = "a reference is missing",
	.s.surplus = "one reference at a time",
};

int cmd_parse_reference(int argc, char **argv)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (oci_ref_parse(a.ref, &ref, &err) < 0)
		return cli_fail(&err);
	return cli_print_json(json_pack("{s:s, s:s, s:s?, s:s?}", "registry", ref.registry,
		"repository", ref.repository, "tag", ref.tag, "digest", ref.digest));
}
