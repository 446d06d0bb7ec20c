#include "cli/cli.h"
#include "cli/common.h"

#include "base/cleanup.h"
#include "oci/digest.h"
#include "store/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct args {
	struct cli_common common;
	int json;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->common;
		return 0;
	case CLI_JSON:
		a->json = 1;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "no argument is expected");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = { CLI_JSON_OPTION, { 0 } };
static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.doc = "List the images in the store.",
	.children = cli_common_children,
};

static json_t *to_json(const struct store_image *im)
{
	char pulled[CLI_TIME_SIZE];

	cli_time_utc(im->pulled, pulled);
	return json_pack("{s:s, s:s, s:s?, s:s, s:I, s:s, s:s?}", "name", im->name, "digest",
		im->manifest, "index", im->index, "platform", im->platform, "size",
		(json_int_t)im->size, "pulled", pulled,
		"source", im->source);
}

static int print_json(const struct store_image *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, to_json(&v[i]));
	return cli_print_json(list);
}

static int print_table(const struct store_image *v, size_t n)
{
	int wide = (int)strlen("NAME"), platform = (int)strlen("PLATFORM");

	for (size_t i = 0; i < n; i++) {
		if ((int)strlen(v[i].name) > wide)
			wide = (int)strlen(v[i].name);
		if ((int)strlen(v[i].platform) > platform)
			platform = (int)strlen(v[i].platform);
	}
	printf("%-*s  %-12s  %-*s  %9s  %s\n", wide, "NAME", "DIGEST", platform, "PLATFORM", "SIZE",
		"PULLED");
	for (size_t i = 0; i < n; i++) {
		char size[CLI_SIZE_SIZE], pulled[CLI_TIME_SIZE];

		cli_size(v[i].size, size);
		cli_time_local(v[i].pulled, pulled);
		printf("%-*s  %.12s  %-*s  %9s  %s\n", wide, v[i].name,
			oci_digest_hex(v[i].manifest), platform, v[i].platform, size, pulled);
	}
	return 0;
}

int cmd_images(int argc, char **argv)
{
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct store_image *v = NULL;
	struct args a = { 0 };
	size_t n = 0;
	int r;

	cli_parse(&argp, argc, argv, 0, &a);
	r = cli_open_store(a.common.store, &st, &err);
	/* Who never pulled has no images, and that is no failure. */
	if (r < 0 && (r != -ENOENT || a.common.store))
		return cli_fail(&err);
	if (st && store_image_list(st, &v, &n, &err) < 0)
		return cli_fail(&err);
	r = a.json ? print_json(v, n) : print_table(v, n);
	store_images_free(v, n);
	return r;
}
