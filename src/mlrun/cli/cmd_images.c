#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/options.h"

#include "oci/digest.h"
#include "store/facts.h"
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
		auto_call(store_facts_done) struct store_facts f = { 0 };

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

/* With several stores the store is a column. */
static void put(struct listing *l, const struct row *row, int with_store)
{
	const struct store_image *im = &row->image;

	listing_text(l, "NAME", "name", im->name);
	listing_text(l, NULL, "digest", im->manifest);
	listing_cell(l, "DIGEST", xstrndup(oci_digest_hex(im->manifest), 12));
	listing_text(l, NULL, "index", im->index);
	listing_text(l, "PLATFORM", "platform", im->platform);
	listing_size(l, "SIZE", "size", im->size);
	listing_json(l, "formats", cli_formats(row->formats));
	listing_cell(l, "FORMAT", store_format_names(row->formats, ","));
	listing_time(l, "PULLED", "pulled", im->pulled);
	listing_text(l, NULL, "source", im->source);
	listing_text(l, NULL, "store", row->store);
	listing_cell(l, "STORE", with_store ? xstrdup(row->store) : NULL);
	listing_optional(l);
}

static int print(const struct table *t, int with_store, int as_json)
{
	static const struct row nothing = { .image = { .manifest = (char *)"sha256:" } };
	struct listing l = { .as_json = as_json };

	for (size_t i = 0; i < t->n; i++) {
		listing_row(&l);
		put(&l, &t->v[i], with_store);
	}
	if (t->n == 0) {
		listing_heads(&l);
		put(&l, &nothing, 0);
	}
	return listing_end(&l);
}

int cmd_images(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	auto_call(table_done) struct table t = { NULL, 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	static const struct option_row options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[NAME]",
		.s.doc = "List the images in the store, or those of a name.",
		.s.operands = { OPT(struct args, name) },
		.s.surplus = "expected at most one NAME" };
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
	return print(&t, all.n > 1 || !all.has_own, a.listing.json);
}
