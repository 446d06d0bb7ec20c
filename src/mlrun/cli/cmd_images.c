#include "cli/cli.h"
#include "cli/common.h"

#include "base/base.h"
#include "base/json.h"
#include "oci/digest.h"
#include "store/facts.h"
#include "store/image.h"
#include "store/stores.h"

static const char doc[] = "List the images in the store.";

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

static int add_store(struct table *t, struct store *st, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;
	int r = store_image_list(st, &v, &n, err);

	if (r < 0)
		return r;
	t->v = xreallocarray(t->v, t->n + n + 1, sizeof(*t->v));
	for (size_t i = 0; i < n; i++) {
		auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;

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
	struct cli_listing a = { 0 };
	int r;

	cli_parse_listing(argc, argv, doc, &a);
	r = cli_open_stores(a.common.store, &all, &err);
	if (r == -ENOENT && !a.common.store)
		r = cli_store_may_come(&err);
	if (r < 0)
		return cli_fail(&err);
	for (size_t i = 0; i < all.n; i++)
		if (add_store(&t, all.v[i], &err) < 0)
			return cli_fail(&err);
	return a.json ? print_json(&t) : print_table(&t, all.n > 1 || (all.n == 1 && !all.has_own));
}
