/* mlrun inspect for an image in a registry or in files. */
#include "cli/cli.h"
#include "cli/inspect.h"

#include "pull/pull.h"

static void notice(void *ctx, const char *words)
{
	mlr_warning("%s", words);
}

static int look(const struct inspect_args *a, struct pull_sight *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	struct pull_options opt = { .platform = a->platform, .registry = a->registry.options };
	struct pull_watch watch = { .notice = notice };

	TRY(oci_name_parse(a->image, &name, err));
	return pull_look(&name, &opt, &watch, ret, err);
}

static int print_raw(const struct inspect_args *a, const struct resolved *res)
{
	const struct registry_document *d =
		res->index.data && !a->platform ? &res->index : &res->manifest;

	fwrite(d->data, 1, d->len, stdout);
	return 0;
}

/* Move configuration and manifest to the picture. */
static void make_picture(struct pull_sight *s, struct picture *p)
{
	struct resolved *res = &s->res;

	p->image.name = take_ptr(&s->name);
	p->image.source = take_ptr(&s->source);
	p->image.manifest = xstrdup(res->manifest.digest);
	p->image.index = res->index.data ? xstrdup(res->index.digest) : NULL;
	p->image.platform = xstrdup(res->platform);
	p->image.size = res->layers.size;
	p->config = res->config;
	res->config = (struct oci_config){ 0 };
	p->manifest = res->layers;
	res->layers = (struct oci_document){ 0 };
}

int cmd_inspect_remote(int argc, char **argv)
{
	auto_call(pull_sight_done) struct pull_sight sight = { 0 };
	auto_call(picture_done) struct picture p = { 0 };
	static struct inspect_args a = INSPECT_ARGS_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (inspect_parse(argc, argv, &a, &err) < 0 ||
		cli_registry_load(&a.registry, a.image, &err) < 0 || look(&a, &sight, &err) < 0)
		return cli_fail(&err);
	if (a.raw)
		return print_raw(&a, &sight.res);
	make_picture(&sight, &p);
	if (a.pin) {
		auto_free char *pin = cli_pin(&p.image);

		puts(pin);
		return 0;
	}
	return picture_print(&p, &a);
}
