#include "cli/cli.h"
#include "cli/options.h"
#include "cli/services.h"

#include "oci/name.h"
#include "store/image.h"

struct args {
	struct cli_common common;
	struct strv images;
	int force, defer;
};

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (a->force && a->defer)
		argp_error(state, "--force and --defer exclude each other");
}

static const struct option_row options[] = {
	{ "force", 'f', 0, 0,
		"also a service that runs, and an image that a service needs, or that was started in on another host or in another PID namespace",
		0, OPT(struct args, force) },
	{ "defer", 0, 0, 0,
		"of an image in use remove the name now; its files go with the next rm or prune after that",
		0, OPT(struct args, defer) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE|SERVICE...",
	.s.doc =
		"Remove services that have ended, or images from the store, and data that no other image "
		"needs.\v"
		"The name of a service is the service's; rmi takes only images.",
	.s.operands = { OPT(struct args, images) },
	.s.needed = 1,
	.s.missing = "an image is missing",
	.s.check = check,
};

/* An image from files has a name in the store. */
static int parse(struct store *st, const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = { 0 };

	TRY(oci_name_parse(text, &name, err));
	if (name.transport == OCI_REGISTRY) {
		oci_ref_copy(&name.ref, ret);
		return 0;
	}
	TRY(store_image_find_name(st, &name, &im, err));
	return oci_ref_parse(im.name, ret, err);
}

/* Returns -ENOENT if there is no such service. */
static int remove_service(struct store *st, const char *name, int force)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r = service_name_check(name, NULL) < 0 ? -ENOENT
						   : service_remove(st, name, force, &err);

	if (r == 0)
		mlr_info("removed the service '%s'", name);
	if (r < 0 && r != -ENOENT)
		cli_fail_at(&err, "rm '%s'", name);
	return r;
}

static int remove_image(struct store *st, const char *text, enum store_remove_how how)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_call(store_image_done) struct store_image gone = { 0 };
	auto_free char *service = how == STORE_REMOVE_UNUSED ? services_needing(st, text) : NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (parse(st, text, &ref, &err) < 0)
		return cli_fail(&err);
	if (service) {
		mlr_fail(&err, EBUSY, "service '%s' needs the image", service);
		mlr_hint(&err,
			"mlrun rm -f %s ends and removes the service; mlrun rmi --force removes only the image",
			service);
		return cli_fail_at(&err, "rm '%s'", text);
	}
	r = store_image_remove(st, &ref, how, &gone, &err);
	if (r < 0)
		return cli_fail_at(&err, "rm '%s'", text);
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
	static struct args a;
	enum store_remove_how how;
	int status = 0, only_images = strcmp(argv[0], "rmi") == 0;

	cli_options_parse(argc, argv, &syntax, &a);
	how = a.force ? STORE_REMOVE_FORCE : a.defer ? STORE_REMOVE_DEFER : STORE_REMOVE_UNUSED;
	if (cli_open_store(a.common.store, &st, &err) < 0)
		status = cli_fail(&err);
	for (size_t i = 0; st && i < a.images.n; i++) {
		int r = only_images ? -ENOENT : remove_service(st, a.images.v[i], a.force);

		if (r == -ENOENT)
			r = remove_image(st, a.images.v[i], how);
		if (r != 0)
			status = CLI_FAILED;
	}
	return status;
}
