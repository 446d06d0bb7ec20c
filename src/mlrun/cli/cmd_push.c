/* mlrun push: writes an image of the store to a registry. */
#include "cli/cli.h"
#include "cli/push_options.h"

#include "oci/name.h"

struct args {
	struct push_args push;
	const char *image, *to;
};

static const struct option_row options[] = { PUSH_OPTIONS, { 0 } };
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE [DESTINATION]",
	.s.doc = "Write an image from the store to a registry. DESTINATION is a name like pull's; "
		 "default: the image's own.\vLayers that the registry has are not sent again.",
	.registry = offsetof(struct args, push.registry),
	.s.given = offsetof(struct args, push.given),
	.s.operands = { OPT(struct args, image), OPT(struct args, to) },
	.s.needed = 1,
	.s.missing = "an image is missing",
	.s.surplus = "an image and a destination are expected, and no more",
};

static int print_json(const struct oci_ref *to, const struct push_result *r, double seconds)
{
	auto_free char *name = oci_ref_canonical(to);

	return cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f}", "name", name,
		"digest", r->digest, "layers", (json_int_t)r->layers, "layers_sent",
		(json_int_t)r->sent, "layers_mounted", (json_int_t)r->mounted, "bytes_sent",
		(json_int_t)r->bytes, "seconds", (double)(int64_t)(seconds * 1000) / 1000));
}

static void tell(const struct oci_ref *to, const struct push_result *r, double seconds)
{
	auto_free char *name = oci_ref_canonical(to);
	char size[CLI_SIZE_SIZE];

	cli_size(r->bytes, size);
	if (r->sent == 0)
		mlr_info("pushed '%s': %s, no layer had to be sent", name, r->digest);
	else
		mlr_info("pushed '%s': %s, %s in %.2f s", name, r->digest, size, seconds);
}

/* The image's own name, unless it is a file's, a digest, or one that only this machine knows. */
static int default_destination(const struct args *a, const struct oci_name *image,
	const struct store_image *im, struct oci_ref *ret, struct mlr_error *err)
{
	if (strncmp(im->name, "localhost/", 10) == 0) {
		mlr_fail(err, EINVAL, "'%s' is a name of this machine's alone, '%s'", a->image,
			im->name);
		return mlr_hint(
			err, "say where: mlrun push %s REGISTRY/NAMESPACE/NAME:TAG", a->image);
	}
	if (image->transport == OCI_REGISTRY && !image->ref.digest &&
		oci_digest_check(im->name, NULL) < 0)
		return push_args_destination(a->image, ret, err);
	mlr_fail(err, EINVAL, "'%s' does not say where to push it", a->image);
	return mlr_hint(err, "mlrun push %s REGISTRY/NAMESPACE/NAME:TAG", a->image);
}

static int push(struct args *a, const struct stores *all, struct oci_ref *to,
	struct push_result *result, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name image = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = { 0 };
	struct store *st;

	TRY(oci_name_parse(a->image, &image, err));
	TRY(stores_find(all, &image, &st, &im, err));
	TRY(a->to ? push_args_destination(a->to, to, err)
		  : default_destination(a, &image, &im, to, err));
	/* Such a name is one of Docker Hub's own images, to which nobody pushes. */
	if (a->to && !strchr(a->to, '/')) {
		mlr_fail(err, EINVAL, "'%s' has no registry and namespace", a->to);
		return mlr_hint(err, "mlrun push %s REGISTRY/NAMESPACE/NAME:TAG", a->image);
	}
	TRY(push_args_run(&a->push, st, &im, to, result, err));
	return push_args_write_digest(&a->push, result->digest, err);
}

static int run(struct args *a, const struct stores *all)
{
	auto_call(oci_ref_done) struct oci_ref to = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct push_result result;
	double start = mlr_now();

	if (push(a, all, &to, &result, &err) < 0)
		return cli_fail(&err);
	if (!a->push.common.quiet)
		tell(&to, &result, mlr_now() - start);
	return a->push.json ? print_json(&to, &result, mlr_now() - start) : 0;
}

int cmd_push(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	static struct args a = { .push = PUSH_ARGS_INIT };
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	if (push_args_settle(&a.push, a.image, &err) < 0 ||
		cli_open_stores(a.push.common.store, &all, &err) < 0)
		return cli_fail(&err);
	cli_stop_catch();
	status = run(&a, &all);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}
