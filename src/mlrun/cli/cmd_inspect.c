/* mlrun inspect for an image in the store, or a service. */
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/services.h"

#include "store/facts.h"
#include "store/stores.h"

static int check_platform(
	const struct store_image *im, const struct inspect_args *a, struct mlr_error *err)
{
	struct oci_platform have;

	if (!a->platform ||
		(oci_platform_parse(im->platform, &have, NULL) == 0 &&
			oci_platform_match(&a->want, &have)))
		return 0;
	mlr_fail(err, ENOENT, "the store has '%s' for %s, not for %s", im->name, im->platform,
		a->platform);
	return mlr_hint(err, "mlrun inspect --remote looks in the registry");
}

static int find(const struct stores *all, const struct inspect_args *a, struct store **st,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;

	TRY(oci_name_parse(a->image, &name, err));
	TRY(stores_find(all, &name, st, ret, err));
	return check_platform(ret, a, err);
}

/* Facts contain what a start needs; the configuration has the rest. */
static int load_config(struct store *st, struct picture *p, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len = 0;

	TRY(cli_stored_text(st, p->manifest.config.digest, &text, &len, err));
	return oci_config_parse(text, len, &p->config, err);
}

static int load(const struct stores *all, const struct inspect_args *a, struct picture *p,
	struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	struct store *st;
	int by_digest;

	TRY(find(all, a, &st, &p->image, err));
	TRY(store_facts_get(st, p->image.manifest, &facts, err));
	/* No record of a name says how large it is. */
	by_digest = strcmp(p->image.name, p->image.manifest) == 0;
	p->store = xstrdup(store_path(st));
	p->formats = facts.formats;
	TRY(cli_stored_manifest(st, p->image.manifest, &p->manifest, err));
	for (size_t i = 0; by_digest && i < p->manifest.n_layers; i++)
		p->image.size += p->manifest.layers[i].blob.size;
	return load_config(st, p, err);
}

static int print_raw(const struct stores *all, const struct inspect_args *a, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_free char *text = NULL;
	struct store *st;
	size_t len = 0;

	TRY(find(all, a, &st, &im, err));
	TRY(cli_stored_text(
		st, im.index && !a->platform ? im.index : im.manifest, &text, &len, err));
	fwrite(text, 1, len, stdout);
	return 0;
}

/* Returns -ENOENT if no store has the image. */
static int print_pin(const struct stores *all, const struct inspect_args *a, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	struct store *st;
	int r = find(all, a, &st, &im, err);

	if (r == 0) {
		auto_free char *pin = cli_pin(&im);

		puts(pin);
	}
	return r;
}

/* Print a service of that name. Returns -ENOENT if there is none. */
static int print_service(const struct inspect_args *a, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	auto_call(service_done) struct service s = SERVICE_INIT;
	json_auto_t *o = NULL;
	int r = service_name_check(a->image, NULL);

	if (r < 0 || a->raw || a->pin || a->platform ||
		cli_open_store(a->common.store, &st, NULL) < 0)
		return -ENOENT;
	r = service_get(st, a->image, &s, err);
	/* In another user's store services are not to be seen, but images are. */
	if (r < 0)
		return r == -EPROTO ? r : -ENOENT;
	o = service_json(&s);
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	return 0;
}

int cmd_inspect(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	auto_call(picture_done) struct picture p = { 0 };
	static struct inspect_args a = INSPECT_ARGS_INIT;
	auto_free char *place = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	const char *image;
	int r;

	if (inspect_parse(argc, argv, &a, &err) < 0)
		return cli_fail(&err);
	if (a.remote)
		return cli_become("mlrun-pull", argv - 1);
	place = cli_image_in_file(a.image);
	image = place ? place : a.image;
	if (a.pin && oci_transport_is_root(oci_transport_of(image, NULL))) {
		puts(a.image); /* used in place */
		return 0;
	}
	if (oci_transport_of(image, NULL) == OCI_SQUASHFS && !a.raw) {
		r = inspect_file(&a, image, &err);
		return r < 0 ? cli_fail_at(&err, "inspect '%s'", a.image) : r;
	}
	r = print_service(&a, &err);
	if (r != -ENOENT)
		return r < 0 ? cli_fail(&err) : 0;
	r = cli_open_stores(a.common.store, &all, &err);
	if (r == 0 && a.pin)
		r = print_pin(&all, &a, &err);
	else if (r == 0)
		r = a.raw ? print_raw(&all, &a, &err) : load(&all, &a, &p, &err);
	if (r == -ENOENT && a.pin)
		return cli_become("mlrun-pull", argv - 1);
	if (r < 0)
		return cli_fail(&err);
	return a.raw || a.pin ? 0 : picture_print(&p, &a);
}
