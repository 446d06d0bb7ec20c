/* mlrun commit: makes an image of what exec --write kept. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/escape.h"
#include "base/json.h"
#include "oci/ref.h"
#include "rootfs/commit.h"

struct args {
	struct cli_common common;
	const char *container, *image, *message, *author;
	struct strv changes;
	int json;
};

static const struct option_row options[] = {
	{ "message", 'm', "TEXT", 0, "a comment for the image's history", 0,
		OPT(struct args, message) },
	{ "author", 'a', "NAME", 0, "the author for the image's history", 0,
		OPT(struct args, author) },
	{ "change", 'c', "INSTRUCTION", 0,
		"change the configuration: 'ENV K=V', 'LABEL K=V', 'CMD …', 'ENTRYPOINT …', 'WORKDIR DIR', "
		"'USER NAME', 'EXPOSE PORT', 'VOLUME DIR', 'HEALTHCHECK …', 'STOPSIGNAL NAME', 'SHELL […]', "
		"'ONBUILD …', 'MAINTAINER NAME'",
		0, OPT(struct args, changes) },
	CLI_OPTION_QUIET(0),
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "CONTAINER IMAGE",
	.s.doc =
		"Make an image of what was written in a container of exec --write. The container stays as it "
		"is.",
	.s.operands = { OPT(struct args, container), OPT(struct args, image) },
	.s.needed = 2,
	.s.missing = "a container and the new image's name are expected",
	.s.surplus = "a container and one image name are expected",
};

static int print_json(const struct rootfs_committed *c)
{
	return cli_print_json(json_pack("{s:s, s:s, s:s, s:s?, s:I, s:o}", "name", c->image.name,
		"digest", c->image.manifest, "platform", c->image.platform, "diff_id",
		*c->diff_id ? c->diff_id : NULL, "size", (json_int_t)c->bytes, "omitted",
		mlr_json_texts(&c->omitted)));
}

/* Escape a file name, which may contain newlines. To free(). */
static char *safe(const char *name)
{
	size_t room = (strlen(name) + 1) * ESCAPE_SIZE;
	char *out = xmalloc(room);

	escape_text(name, out, room);
	return out;
}

static void tell(const struct args *a, const struct rootfs_committed *c)
{
	char size[CLI_SIZE_SIZE];

	for (size_t i = 0; i < c->omitted.n && i < 5; i++) {
		auto_free char *name = safe(c->omitted.v[i]);

		mlr_info("'%s' omitted: a layer cannot contain it", name);
	}
	if (c->omitted.n > 5)
		mlr_info("%zu more omitted", c->omitted.n - 5);
	if (c->is_running)
		mlr_info(
			"container '%s' is running: what its processes were writing may be there in "
			"part",
			a->container);
	cli_size(c->bytes, size);
	if (*c->diff_id)
		mlr_info("committed '%s': %s, a layer of %s", c->image.name, c->image.manifest,
			size);
	else
		mlr_info("committed '%s': %s, with no layer, as nothing was written", c->image.name,
			c->image.manifest);
}

static int run(const struct args *a, struct store *st, struct mlr_error *err)
{
	auto_call(rootfs_committed_done) struct rootfs_committed done = ROOTFS_COMMITTED_INIT;
	auto_call(stores_close) struct stores all = { 0 };
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *name = NULL;
	struct rootfs_commit opt = { .container = a->container,
		.message = a->message,
		.author = a->author,
		.changes = &a->changes,
		.cancel = &cli_stop_signal };
	int r = cli_parse_new_name(a->image, &ref, err);

	if (r == 0)
		r = stores_open_additional(st, &all, err);
	if (r < 0)
		return cli_fail(err);
	opt.image = name = oci_ref_canonical(&ref);
	r = rootfs_commit(st, &all, &opt, &done, err);
	if (r < 0)
		return cli_fail(err);
	store_settle(st);
	tell(a, &done);
	return a->json ? print_json(&done) : 0;
}

int cmd_commit(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	static struct args a;
	int status;

	cli_options_parse(argc, argv, &syntax, &a);
	if (cli_open_store(a.common.store, &st, &err) < 0)
		return cli_fail(&err);
	cli_stop_catch();
	status = run(&a, st, &err);
	if (store_has_work(st))
		store_sweep(st);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}
