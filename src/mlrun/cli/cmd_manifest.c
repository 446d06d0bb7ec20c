/* mlrun manifest: indexes, which let one name stand for the images of several platforms. */
#include "cli/cli.h"
#include "cli/push_options.h"

#include "base/json.h"
#include "oci/name.h"
#include "push/index.h"

struct args {
	struct push_args push;
	struct strv words; /* the index's name, and images */
};

static const struct option_row options[] = { PUSH_OPTIONS, { 0 } };
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "NAME IMAGE...",
	.s.doc =
		"Push images for several platforms and an index of them, under one name, to a "
		"registry.\vAn IMAGE that the store lacks must be in NAME's repository already; of an "
		"index all images are taken.",
	.registry = offsetof(struct args, push.registry),
	.s.given = offsetof(struct args, push.given),
	.s.operands = { OPT(struct args, words) },
	.s.needed = 1,
	.s.missing = "a name for the index is missing",
};

/* An image that the store lacks: does NAME's repository have it? */
static int add_remote(struct args *a, const struct oci_ref *to, const struct oci_name *image,
	const char *text, struct index_items *items, struct mlr_error *err)
{
	const struct oci_ref *ref = &image->ref;

	if (image->transport == OCI_REGISTRY && strcmp(ref->registry, to->registry) == 0 &&
		strcmp(ref->repository, to->repository) == 0)
		return index_add_remote(items, ref, &a->push.push, err);
	return mlr_hint(err, "mlrun pull --platform OS/ARCH %s brings it", text);
}

static int add(struct args *a, const struct stores *all, const struct oci_ref *to, const char *text,
	struct index_items *items, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name image = OCI_NAME_INIT;
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_call(oci_ref_done) struct oci_ref place = { 0 };
	struct push_result pushed;
	struct store *st;
	int r;

	TRY(oci_name_parse(text, &image, err));
	r = stores_find(all, &image, &st, &im, err);
	if (r == -ENOENT)
		return add_remote(a, to, &image, text, items, err);
	if (r < 0)
		return r;
	oci_ref_copy(to, &place);
	free(place.tag);
	place.tag = NULL;
	TRY(push_args_run(&a->push, st, &im, &place, &pushed, err));
	return index_add_pushed(items, &pushed, im.platform, err);
}

static int push(struct args *a, const struct stores *all, struct oci_ref *to, char *digest,
	struct index_items *items, struct mlr_error *err)
{
	int r = push_args_destination(a->words.v[0], to, err);

	for (size_t i = 1; r == 0 && i < a->words.n; i++)
		r = add(a, all, to, a->words.v[i], items, err);
	if (r == 0)
		r = index_push(items, to, &a->push.push, digest, err);
	return r < 0 ? r : push_args_write_digest(&a->push, digest, err);
}

static int print_json(const char *name, const char *digest, const struct index_items *items)
{
	return cli_print_json(json_pack("{s:s, s:s, s:o}", "name", name, "digest", digest, "images",
		MLR_JSON_LIST(i, items->n,
			json_pack("{s:s, s:s}", "digest", items->v[i].digest, "platform",
				items->v[i].platform))));
}

static int run(struct args *a, const struct stores *all)
{
	auto_call(oci_ref_done) struct oci_ref to = { 0 };
	auto_call(index_items_done) struct index_items items = { 0 };
	auto_free char *name = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	char digest[OCI_DIGEST_SIZE];

	if (push(a, all, &to, digest, &items, &err) < 0)
		return cli_fail(&err);
	name = oci_ref_canonical(&to);
	if (!a->push.common.quiet)
		mlr_info("pushed '%s': %s, an index of %zu image%s", name, digest, items.n,
			items.n == 1 ? "" : "s");
	return a->push.json ? print_json(name, digest, &items) : 0;
}

static int run_push(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	static struct args a = { .push = PUSH_ARGS_INIT };
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = push_args_settle(&a.push, a.words.v[0], &err);
	if (r == 0 && a.words.n < 2)
		r = mlr_fail(&err, EINVAL,
			"'%s' needs an image to stand for: mlrun manifest push "
			"NAME IMAGE...",
			a.words.v[0]);
	if (r == 0)
		r = cli_open_stores(a.push.common.store, &all, &err);
	if (r < 0)
		return cli_fail(&err);
	cli_stop_catch();
	status = run(&a, &all);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}

/* Print the registry's document as it is: mlrun inspect --remote --raw. */
static int run_inspect(int argc, char **argv)
{
	static char command[] = "inspect", remote[] = "--remote", raw[] = "--raw";
	char **longer = xcalloc((size_t)argc + 3, sizeof(*longer));
	int n = 0, status;

	longer[n++] = command;
	longer[n++] = remote;
	longer[n++] = raw;
	for (int i = 1; i < argc; i++)
		longer[n++] = argv[i];
	status = cmd_inspect_remote(n, longer);
	free(longer);
	return status;
}

static int print_help(FILE *out)
{
	fputs("Usage: mlrun manifest COMMAND [OPTION...] [ARG...]\n"
	      "Let one name stand for images of several platforms.\n\n"
	      "  push NAME IMAGE...   push images and an index of them\n"
	      "  inspect NAME         print the index or manifest that a registry has\n\n"
	      "`mlrun manifest push --help` lists the options; mlrun-push(1) has the rest.\n",
		out);
	return out == stdout ? 0 : CLI_FAILED;
}

int cmd_manifest(int argc, char **argv)
{
	static char name[] = "manifest push";
	struct mlr_error err = MLR_ERROR_INIT;

	if (argc < 2)
		return print_help(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help(stdout);
	if (strcmp(argv[1], "inspect") == 0)
		return run_inspect(argc - 1, argv + 1);
	if (strcmp(argv[1], "push") == 0) {
		argv[1] = name;
		return run_push(argc - 1, argv + 1);
	}
	mlr_fail(&err, EINVAL, "manifest: '%s' is not a command", argv[1]);
	mlr_hint(&err,
		"mlrun manifest push NAME IMAGE... makes an index and pushes it in one step; "
		"mlrun manifest inspect NAME prints one");
	return cli_fail(&err);
}
