#include "cli/cli.h"
#include "cli/common.h"

#include "base/cleanup.h"
#include "oci/manifest.h"
#include "oci/name.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/stores.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct args {
	struct cli_common common;
	const char *image;
	int json;
};

/* All that the store knows of one image. */
struct picture {
	struct store_image image;
	struct store_facts facts;
	const char *store;            /* its path; borrowed */
	struct oci_document manifest; /* as many layers as facts.config.diff_ids */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->common;
		return 0;
	case CLI_JSON:
		a->json = 1;
		return 0;
	case ARGP_KEY_ARG:
		if (a->image)
			argp_error(state, "one image at a time");
		a->image = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "an image is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = { CLI_JSON_OPTION, { 0 } };
static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "IMAGE",
	.doc = "Show what an image in the store is.",
	.children = cli_common_children,
};

static void picture_done(struct picture *p)
{
	store_image_done(&p->image);
	store_facts_done(&p->facts);
	oci_document_done(&p->manifest);
}

static int load(const struct stores *all, const char *text, struct picture *p, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	struct store *st = NULL;
	int r = oci_name_parse(text, &name, err);

	if (r == 0)
		r = stores_find(all, &name, &st, &p->image, err);
	if (r == 0)
		r = store_facts_get(st, p->image.manifest, &p->facts, err);
	if (r == 0)
		r = cli_stored_manifest(st, p->image.manifest, &p->manifest, err);
	p->store = st ? store_path(st) : NULL;
	return r;
}

static json_t *layers_to_json(const struct picture *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->manifest.n_layers; i++) {
		const struct oci_descriptor *d = &p->manifest.layers[i].blob;
		const struct strv *ids = &p->facts.config.diff_ids;

		json_array_append_new(list,
			json_pack("{s:s, s:I, s:s, s:s?}", "digest", d->digest, "size",
				(json_int_t)d->size, "media_type", d->media_type, "diff_id",
				i < ids->n ? ids->v[i] : NULL));
	}
	return list;
}

/* What is no UTF-8 cannot stand in JSON: null then. */
static json_t *strv_to_json(const struct strv *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++) {
		json_t *s = json_string(l->v[i]);

		json_array_append_new(list, s ? s : json_null());
	}
	return list;
}

static int print_json(const struct picture *p)
{
	const struct oci_config *c = &p->facts.config;
	char pulled[CLI_TIME_SIZE];

	cli_time_utc(p->image.pulled, pulled);
	return cli_print_json(
		json_pack("{s:s, s:s, s:s?, s:s, s:s?, s:s, s:I, s:o, s:o, s:o, s:o, s:s?, s:s?, "
			  "s:s?}",
			"name", p->image.name, "digest", p->image.manifest, "index", p->image.index,
			"platform", p->image.platform, "created", c->created, "pulled", pulled,
			"size", (json_int_t)p->image.size, "layers", layers_to_json(p), "env",
			strv_to_json(&c->env), "entrypoint", strv_to_json(&c->entrypoint), "cmd",
			strv_to_json(&c->cmd), "user", c->user, "working_dir", c->working_dir,
			"store", p->store));
}

static void print_line(const char *label, const char *value)
{
	printf("%-12s", label);
	cli_print_safe(value);
	putchar('\n');
}

/* One word a line below each other, so that a word with spaces is seen to be one. */
static void print_list(const char *label, const struct strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		print_line(i == 0 ? label : "", l->v[i]);
	if (l->n == 0)
		print_line(label, "-");
}

static int print_text(const struct picture *p)
{
	const struct oci_config *c = &p->facts.config;
	char text[CLI_TIME_SIZE];

	print_line("name", p->image.name);
	print_line("store", p->store);
	print_line("digest", p->image.manifest);
	if (p->image.index)
		print_line("index", p->image.index);
	print_line("platform", p->image.platform);
	print_line("created", c->created ? c->created : "-");
	cli_time_local(p->image.pulled, text);
	print_line("pulled", text);
	cli_size(p->image.size, text);
	print_line("size", text);
	for (size_t i = 0; i < p->manifest.n_layers; i++) {
		cli_size(p->manifest.layers[i].blob.size, text);
		printf("%-12s%.19s  %9s\n", i == 0 ? "layers" : "",
			p->manifest.layers[i].blob.digest, text);
	}
	print_list("env", &c->env);
	print_list("entrypoint", &c->entrypoint);
	print_list("cmd", &c->cmd);
	print_line("user", c->user ? c->user : "-");
	print_line("workdir", c->working_dir ? c->working_dir : "-");
	return 0;
}

int cmd_inspect(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = STORES_INIT;
	auto_call(picture_done) struct picture p = { .facts = STORE_FACTS_INIT };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	int r;

	cli_parse(&argp, argc, argv, 0, &a);
	r = stores_open(a.common.store, &all, &err);
	if (r == -ENOENT)
		cli_hint_no_store(&err);
	if (r < 0)
		return cli_fail(&err);
	if (load(&all, a.image, &p, &err) < 0)
		return cli_fail(&err);
	return a.json ? print_json(&p) : print_text(&p);
}
