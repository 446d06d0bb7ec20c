#include "cli/cli.h"
#include "cli/common.h"
#include "cli/options.h"

#include "base/base.h"
#include "base/json.h"
#include "oci/digest.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/stores.h"

struct args {
	struct cli_listing listing;
	const char *name; /* list these alone; or NULL */
};

struct row {
	struct store_image image;
	const char *store; /* its path */
	unsigned formats;
};

struct table {
	struct row *v;
	size_t n;
};

static void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		store_image_done(&t->v[i].image);
	free(t->v);
}

/* Is it an image's name or the end of one, with or without its tag: "debian", "lab/numpy:1"? */
static int is_wanted(const char *name, const char *wanted)
{
	size_t len = strlen(name), tail = strlen(wanted);
	const char *base = strrchr(name, '/'), *tag = strchr(base ? base : name, ':');

	if (tag && !strchr(path_base(wanted), ':'))
		len = (size_t)(tag - name);
	return len >= tail && strncmp(name + len - tail, wanted, tail) == 0 &&
		(len == tail || name[len - tail - 1] == '/');
}

static int add_store(struct table *t, struct store *st, const char *wanted, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;

	TRY(store_image_list(st, &v, &n, err));
	t->v = xreallocarray(t->v, t->n + n + 1, sizeof(*t->v));
	for (size_t i = 0; i < n; i++) {
		auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;

		if (wanted && !is_wanted(v[i].name, wanted)) {
			store_image_done(&v[i]);
			continue;
		}
		/* An image with unreadable facts has no format; exec explains why. */
		if (store_facts_get(st, v[i].manifest, &f, NULL) < 0)
			f.formats = 0;
		t->v[t->n++] = (struct row){ v[i], store_path(st), f.formats };
	}
	free(v);
	return 0;
}

static json_t *to_json(const struct row *row)
{
	const struct store_image *im = &row->image;
	char pulled[CLI_TIME_SIZE];

	cli_time_utc(im->pulled, pulled);
	return json_pack("{s:s, s:s, s:s?, s:s, s:I, s:s, s:o, s:o, s:o}", "name", im->name,
		"digest", im->manifest, "index", im->index, "platform", im->platform, "size",
		(json_int_t)im->size, "pulled", pulled, "source", mlr_json_text(im->source),
		"store", mlr_json_text(row->store), "formats", cli_formats(row->formats));
}

static int print_json(const struct table *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->n; i++)
		json_array_append_new(list, to_json(&t->v[i]));
	return cli_print_json(list);
}

/* With several stores the store is a column. */
static int print_table(const struct table *t, int with_store)
{
	int wide = (int)strlen("NAME"), platform = (int)strlen("PLATFORM"),
	    format = (int)strlen("FORMAT");

	for (size_t i = 0; i < t->n; i++) {
		auto_free char *formats = store_format_names(t->v[i].formats, ",");

		cli_widen(&format, formats);
		cli_widen(&wide, t->v[i].image.name);
		cli_widen(&platform, t->v[i].image.platform);
	}
	printf("%-*s  %-12s  %-*s  %9s  %-*s  %s\n", wide, "NAME", "DIGEST", platform, "PLATFORM",
		"SIZE", format, "FORMAT", with_store ? "PULLED            STORE" : "PULLED");
	for (size_t i = 0; i < t->n; i++) {
		const struct store_image *im = &t->v[i].image;
		auto_free char *formats = store_format_names(t->v[i].formats, ",");
		char size[CLI_SIZE_SIZE], pulled[CLI_TIME_SIZE];

		cli_size(im->size, size);
		cli_time_local(im->pulled, pulled);
		printf("%-*s  %.12s  %-*s  %9s  %-*s  %s%s%s\n", wide, im->name,
			oci_digest_hex(im->manifest), platform, im->platform, size, format, formats,
			pulled, with_store ? "  " : "", with_store ? t->v[i].store : "");
	}
	return 0;
}

int cmd_images(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = STORES_INIT;
	auto_call(table_done) struct table t = { NULL, 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	static const struct cli_option options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	static const struct cli_syntax syntax = { .options = options,
		.args_doc = "[NAME]",
		.doc = "List the images in the store, or those of a name.",
		.operands = { CLI_TO(struct args, name) },
		.surplus = "expected at most one NAME" };
	struct args a = { .name = NULL };
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_stores(a.listing.common.store, &all, &err);
	if (r == -ENOENT && !a.listing.common.store)
		r = cli_store_may_come(&err);
	if (r < 0)
		return cli_fail(&err);
	for (size_t i = 0; i < all.n; i++)
		if (add_store(&t, all.v[i], a.name, &err) < 0)
			return cli_fail(&err);
	return a.listing.json ? print_json(&t)
			      : print_table(&t, all.n > 1 || (all.n == 1 && !all.has_own));
}
