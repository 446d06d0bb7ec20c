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

static void put(struct listing *l, const struct store_image *im, unsigned formats,
	const char *store, int with_store)
{
	listing_text(l, "NAME", "name", im->name);
	listing_text(l, NULL, "digest", im->manifest);
	listing_cell(l, "DIGEST", xstrndup(oci_digest_hex(im->manifest), 12));
	listing_text(l, NULL, "index", im->index);
	listing_text(l, "PLATFORM", "platform", im->platform);
	listing_size(l, "SIZE", "size", im->size);
	listing_json(l, "formats", cli_formats(formats));
	listing_cell(l, "FORMAT", store_format_names(formats, ","));
	listing_time(l, "PULLED", "pulled", im->pulled);
	listing_text(l, NULL, "source", im->source);
	listing_text(l, NULL, "store", store);
	listing_cell(l, "STORE", with_store ? xstrdup(store) : NULL);
	listing_optional(l);
}

static int put_store(struct listing *l, struct store *st, const char *wanted, int with_store,
	struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;

	TRY(store_image_list(st, &v, &n, err));
	for (size_t i = 0; i < n; i++) {
		auto_call(store_facts_done) struct store_facts f = { 0 };

		if (wanted && !is_wanted(v[i].name, wanted))
			continue;
		/* An image with unreadable facts has no format; exec explains why. */
		if (store_facts_get(st, v[i].manifest, &f, NULL) < 0)
			f.formats = 0;
		listing_row(l);
		put(l, &v[i], f.formats, store_path(st), with_store);
	}
	store_images_free(v, n);
	return 0;
}

int cmd_images(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	static const struct store_image nothing = { .manifest = (char *)"sha256:" };
	struct mlr_error err = MLR_ERROR_INIT;
	static const struct option_row options[] = { CLI_OPTION_JSON(struct cli_listing), { 0 } };
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "[NAME]",
		.s.doc = "List the images in the store, or those of a name.",
		.s.operands = { OPT(struct args, name) },
		.s.surplus = "expected at most one NAME" };
	struct args a = { .name = NULL };
	struct listing l = { 0 };
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_stores(a.listing.common.store, &all, &err);
	if (r == -ENOENT && !a.listing.common.store)
		r = cli_store_may_come(&err);
	if (r < 0)
		return cli_fail(&err);
	l.as_json = a.listing.json;
	/* With several stores the store is a column. */
	for (size_t i = 0; i < all.n; i++)
		if (put_store(&l, all.v[i], a.name, all.n > 1 || !all.has_own, &err) < 0)
			return cli_fail(&err);
	if (!l.rows) {
		listing_heads(&l);
		put(&l, &nothing, 0, NULL, 0);
	}
	return listing_end(&l);
}
