#include "cli/cli.h"
#include "cli/options.h"

#include "base/json.h"
#include "store/container.h"
#include "store/prune.h"

struct args {
	struct cli_common common;
	struct store_prune_options prune;
	int json;
};

static const struct option_row options[] = {
	{ "keep-last", 0, "N", 0,
		"keep the N last used images of each repository; without the next two options remove all others",
		1, OPT_COUNT(struct args, prune.keep_last, 0, INT_MAX) },
	{ "older-than", 0, "AGE", 0, "remove images not used for so long: 90m, 12h, 30d, 8w", 1,
		OPT_READ(struct args, prune.older_than, cli_read_age,
			"an age such as 90m, 12h, 30d or 8w") },
	{ "max-size", 0, "SIZE", 0,
		"remove the longest unused until the store is this small: 500MB, 100G, 2TiB", 1,
		OPT_READ(struct args, prune.max_size, cli_read_size,
			"a size such as 500MB, 100G or 2TiB") },
	{ "dry-run", 0, 0, 0, "remove nothing, only print what would be removed", 2,
		OPT(struct args, prune.dry_run) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc =
		"Remove images not used for long, and data that no image needs. Without options no "
		"image is removed, only the leftovers of interrupted pulls and deferred removals.",
	.s.surplus = "expected no argument; mlrun rm removes images by name",
};

static int print_json(const struct store_prune_result *r, int dry_run)
{
	json_t *images = json_array();

	for (size_t i = 0; i < r->n; i++) {
		char used[CLI_TIME_SIZE];

		mlr_time_utc(r->images[i].last_use, used);
		json_array_append_new(images,
			json_pack("{s:s, s:s, s:s, s:b}", "name", r->images[i].image.name, "digest",
				r->images[i].image.manifest, "last_use", used, "in_use",
				r->images[i].in_use));
	}
	return cli_print_json(json_pack("{s:b, s:o, s:o, s:I, s:o}", "dry_run", dry_run, "images",
		images, "parts", mlr_json_texts(&r->parts), "bytes_freed", (json_int_t)r->freed,
		"bytes_left", r->left < 0 ? json_null() : json_integer((json_int_t)r->left)));
}

static void print_text(const struct store_prune_result *r, const struct args *a)
{
	char size[CLI_SIZE_SIZE];

	for (size_t i = 0; i < r->n; i++) {
		const struct store_pruned *p = &r->images[i];
		char used[CLI_TIME_SIZE];

		cli_time_local(p->last_use, used);
		mlr_info("%s '%s', last used %s",
			p->in_use                  ? "in use, kept:"
				: a->prune.dry_run ? "would remove"
						   : "removed",
			p->image.name, used);
	}
	cli_size(r->freed, size);
	mlr_info("%s %s", a->prune.dry_run ? "would free" : "freed", size);
	if (r->left > a->prune.max_size) {
		cli_size((uint64_t)r->left, size);
		mlr_warning("the rest must stay and takes %s", size);
	}
}

int cmd_prune(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	auto_call(store_prune_result_done) struct store_prune_result result =
		STORE_PRUNE_RESULT_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { .prune = STORE_PRUNE_OPTIONS_INIT };

	cli_options_parse(argc, argv, &syntax, &a);
	if (cli_open_store(a.common.store, &st, &err) < 0)
		return cli_fail(&err);
	if (!a.prune.dry_run)
		store_container_sweep(st);
	if (store_prune(st, &a.prune, &result, &err) < 0)
		return cli_fail_at(&err, "prune");
	if (a.json)
		return print_json(&result, a.prune.dry_run);
	print_text(&result, &a);
	return 0;
}
