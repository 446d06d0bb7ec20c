#include "cli/cli.h"
#include "cli/common.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strv.h"
#include "oci/name.h"
#include "store/image.h"

struct args {
	struct cli_common common;
	struct strv images;
	enum store_remove_how how;
};

enum { KEY_DEFER = CLI_KEYS };

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->common;
		return 0;
	case 'f':
		if (a->how == STORE_REMOVE_DEFER)
			argp_error(state, "--force and --defer exclude each other");
		a->how = STORE_REMOVE_FORCE;
		return 0;
	case KEY_DEFER:
		if (a->how == STORE_REMOVE_FORCE)
			argp_error(state, "--force and --defer exclude each other");
		a->how = STORE_REMOVE_DEFER;
		return 0;
	case ARGP_KEY_ARG:
		strv_add(&a->images, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "an image is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "force", 'f', 0, 0,
		"also an image that was started in on another host or in another PID namespace",
		0 },
	{ "defer", KEY_DEFER, 0, 0,
		"of an image in use remove the name now; its files go with the next rm or prune after that",
		0 },
	{ 0 },
};
static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "IMAGE...",
	.doc = "Remove images from the store, and what no other image needs.",
	.children = cli_common_children,
};

/* An image from files goes by the name that it has in the store. */
static int parse(struct store *st, const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = STORE_IMAGE_INIT;
	int r = oci_name_parse(text, &name, err);

	if (r < 0)
		return r;
	if (name.transport == OCI_REGISTRY) {
		oci_ref_copy(&name.ref, ret);
		return 0;
	}
	r = store_image_find_name(st, &name, &im, err);
	return r < 0 ? r : oci_ref_parse(im.name, ret, err);
}

static int remove_one(struct store *st, const char *text, enum store_remove_how how)
{
	auto_call(oci_ref_done) struct oci_ref ref = OCI_REF_INIT;
	auto_call(store_image_done) struct store_image gone = STORE_IMAGE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (parse(st, text, &ref, &err) < 0)
		return cli_fail(&err);
	r = store_image_remove(st, &ref, how, &gone, &err);
	if (r < 0) {
		mlr_wrap(&err, "rm '%s'", text);
		return cli_fail(&err);
	}
	if (r == 1)
		mlr_info("removed the name '%s'; its files are in use and go with the next rm or "
			 "prune after that",
			gone.name);
	else
		mlr_info("removed '%s'", gone.name);
	return 0;
}

int cmd_rm(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	int status = 0;

	cli_parse(&argp, argc, argv, 0, &a);
	if (cli_open_store(a.common.store, &st, &err) < 0)
		status = cli_fail(&err);
	for (size_t i = 0; st && i < a.images.n; i++)
		if (remove_one(st, a.images.v[i], a.how) != 0)
			status = CLI_FAILED;
	strv_done(&a.images);
	return status;
}
