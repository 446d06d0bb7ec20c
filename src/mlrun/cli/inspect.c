#include "cli/inspect.h"

#include "base/escape.h"
#include "base/json.h"
#include "cli/cli.h"
#include "store/facts.h"

static const struct option_row options[] = {
	{ "remote", 0, 0, 0, "look in the registry, or at the files, rather than in the store", 1,
		OPT(struct inspect_args, remote) },
	{ "platform", 0, "OS/ARCH[/VARIANT]", 0, "the image's variant; default: this machine's", 1,
		OPT(struct inspect_args, platform) },
	{ "raw", 0, 0, 0,
		"print the manifest as it stands; the index where there is one, unless --platform is given",
		2, OPT(struct inspect_args, raw) },
	{ "pin", 0, 0, 0,
		"print NAME@DIGEST, which stays this image; from the store, else from the registry",
		2, OPT(struct inspect_args, pin) },
	CLI_OPTION_JSON(struct inspect_args),
	{ 0 },
};

static void check(void *args, struct argp_state *state)
{
	const struct inspect_args *a = args;

	if (a->raw + a->json + a->pin > 1)
		argp_error(state, "--raw, --json and --pin are different outputs: choose one");
}

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE",
	.s.doc =
		"Describe an image in the store, or with --remote or the prefix docker:// one that is "
		"still in its registry.",
	.registry = offsetof(struct inspect_args, registry),
	.s.operands = { OPT(struct inspect_args, image) },
	.s.needed = 1,
	.s.missing = "an image is missing",
	.s.surplus = "one image at a time",
	.s.check = check,
};

int inspect_parse(int argc, char **argv, struct inspect_args *ret, struct mlr_error *err)
{
	cli_options_parse(argc, argv, &syntax, ret);
	if (strncmp(ret->image, "docker://", 9) == 0)
		ret->remote = 1;
	if (ret->platform)
		return oci_platform_parse(ret->platform, &ret->want, err);
	oci_platform_host(&ret->want);
	return 0;
}

void picture_done(struct picture *p)
{
	store_image_done(&p->image);
	free(p->store);
	oci_config_done(&p->config);
	oci_document_done(&p->manifest);
}

static json_t *layer_to_json(const struct oci_descriptor *d, const char *diff_id)
{
	return json_pack("{s:s, s:I, s:s, s:s?}", "digest", d->digest, "size", (json_int_t)d->size,
		"media_type", d->media_type, "diff_id", diff_id);
}

static int print_json(const struct picture *p)
{
	const struct store_image *im = &p->image;
	const struct oci_config *c = &p->config;
	char pulled[CLI_TIME_SIZE];

	mlr_time_utc(im->pulled, pulled);
	return cli_print_json(json_pack(
		"{s:s, s:s, s:s?, s:s, s:s, s:o, s:s?, s:s?, s:I, s:o, s:o, s:o, s:o, s:s?, s:s?, s:o, s:o, s:o}",
		"name", im->name, "digest", im->manifest, "index", im->index, "config",
		p->manifest.config.digest, "platform", im->platform, "source",
		mlr_json_text(im->source), "created", c->created, "pulled",
		im->pulled ? pulled : NULL, "size", (json_int_t)im->size, "layers",
		MLR_JSON_LIST(i, p->manifest.n_layers,
			layer_to_json(&p->manifest.layers[i].blob,
				i < c->diff_ids.n ? c->diff_ids.v[i] : NULL)),
		"env", mlr_json_texts(&c->env), "entrypoint", mlr_json_texts(&c->entrypoint), "cmd",
		mlr_json_texts(&c->cmd), "user", c->user, "working_dir", c->working_dir, "labels",
		mlr_json_pairs(&c->labels), "store", mlr_json_text(p->store), "formats",
		p->store ? cli_formats(p->formats) : json_null()));
}

static void print_line(const char *label, const char *value)
{
	printf("%-12s", label);
	cli_print_line(value);
}

/* Print one word on each line, so that spaces in a word are visible. */
static void print_list(const char *label, const struct strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		print_line(i == 0 ? label : "", l->v[i]);
	if (l->n == 0)
		print_line(label, "-");
}

static void print_labels(const struct strv *labels)
{
	for (size_t i = 0; i + 1 < labels->n; i += 2) {
		printf("%-12s", i == 0 ? "labels" : "");
		escape_print(stdout, labels->v[i]);
		putchar('=');
		cli_print_line(labels->v[i + 1]);
	}
}

static void print_layers(const struct oci_document *m)
{
	char size[CLI_TIME_SIZE];

	for (size_t i = 0; i < m->n_layers; i++) {
		cli_size(m->layers[i].blob.size, size);
		printf("%-12s%.19s  %9s\n", i == 0 ? "layers" : "", m->layers[i].blob.digest, size);
	}
}

static int print_text(const struct picture *p)
{
	const struct store_image *im = &p->image;
	const struct oci_config *c = &p->config;
	char text[CLI_TIME_SIZE];

	print_line("name", im->name);
	if (p->store)
		print_line("store", p->store);
	print_line("digest", im->manifest);
	if (im->index)
		print_line("index", im->index);
	print_line("config", p->manifest.config.digest);
	print_line("platform", im->platform);
	if (im->source)
		print_line("source", im->source);
	print_line("created", c->created ? c->created : "-");
	if (im->pulled) {
		cli_time_local(im->pulled, text);
		print_line("pulled", text);
	}
	cli_size(im->size, text);
	print_line("size", text);
	if (p->store) {
		auto_free char *names = store_format_names(p->formats, ",");

		print_line("format", names);
	}
	print_layers(&p->manifest);
	print_list("env", &c->env);
	print_list("entrypoint", &c->entrypoint);
	print_list("cmd", &c->cmd);
	print_line("user", c->user ? c->user : "-");
	print_line("workdir", c->working_dir ? c->working_dir : "-");
	print_labels(&c->labels);
	return 0;
}

int picture_print(const struct picture *p, const struct inspect_args *a)
{
	return a->json ? print_json(p) : print_text(p);
}
