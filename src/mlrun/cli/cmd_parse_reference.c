#include "cli/cli.h"
#include "cli/common.h"
#include "oci/ref.h"

#include "base/cleanup.h"

struct args {
	struct cli_common common;
	const char *ref;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->common;
		return 0;
	case ARGP_KEY_ARG:
		if (a->ref)
			argp_error(state, "one reference at a time");
		a->ref = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "a reference is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse_option,
	.args_doc = "REF",
	.doc = "Print the parts of an image name as JSON: registry, repository, tag, digest.",
	.children = cli_common_children,
};

int cmd_parse_reference(int argc, char **argv)
{
	auto_call(oci_ref_done) struct oci_ref ref = OCI_REF_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };

	cli_parse(&argp, argc, argv, 0, &a);
	if (oci_ref_parse(a.ref, &ref, &err) < 0)
		return cli_fail(&err);
	return cli_print_json(json_pack("{s:s, s:s, s:s?, s:s?}", "registry", ref.registry,
		"repository", ref.repository, "tag", ref.tag, "digest", ref.digest));
}
