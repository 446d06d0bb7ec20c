#include "cli/cli.h"
#include "cli/options.h"

#include "oci/name.h"
#include "store/image.h"

struct args {
	struct cli_common common;
	const char *image, *name;
};

static const struct cli_syntax syntax = {
	.s.args_doc = "IMAGE NAME",
	.s.doc =
		"Give an image in the store another name. If another image has that name, it moves to this one.",
	.s.operands = { OPT(struct args, image), OPT(struct args, name) },
	.s.needed = 2,
	.s.missing = "an image and its new name are expected",
	.s.surplus = "an image and one new name are expected",
};

static int tag(struct store *st, const struct args *a, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name image = OCI_NAME_INIT;
	auto_call(oci_ref_done) struct oci_ref name = { 0 };
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_free char *was = NULL;

	TRY(oci_name_parse(a->image, &image, err));
	TRY(cli_parse_new_name(a->name, &name, err));
	TRY(store_hold(st, err)); /* before the search: nobody removes what is found */
	TRY(store_image_find_name(st, &image, &im, err));
	if (!im.source)
		im.source = take_ptr(&im.name); /* where to get it again */
	free(im.name);
	im.name = oci_ref_canonical(&name);
	was = store_image_other(st, &im);
	TRY(store_image_put(st, &im, err));
	cli_tell_replaced(im.name, was);
	mlr_info("'%s' is %s now", im.name, im.manifest);
	return 0;
}

int cmd_tag(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (cli_open_store(a.common.store, &st, &err) < 0)
		return cli_fail(&err);
	return tag(st, &a, &err) < 0 ? cli_fail_at(&err, "tag '%s'", a.image) : 0;
}
