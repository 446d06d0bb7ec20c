/* mlrun rerun: starts a job's container once more, by what was recorded. */
#include "config.h"

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/runs.h"

#include "base/escape.h"

struct args {
	struct cli_common common;
	int show, json;
	const char *job;
};

static const struct option_row options[] = {
	{ "show", 0, NULL, 0, "print what was recorded; start nothing", 0, OPT(struct args, show) },
	CLI_OPTION_JSON(struct args),
	{ 0 },
};

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "JOB[.STEP]",
	.s.doc =
		"Start the container of a job once more: the same image by its digest, the same options, "
		"command and directory.\v"
		"If a job started several, STEP chooses. --json prints a list.",
	.s.operands = { OPT(struct args, job) },
	.s.needed = 1,
	.s.missing = "expected a job's id",
	.s.surplus = "one job at a time",
};

static const char *get(const json_t *start, const char *key)
{
	return json_string_value(json_object_get(start, key));
}

static const char *pin_of(const json_t *start)
{
	return get(json_object_get(start, "image"), "pin");
}

/* The recorded command line, with the image's digest in place of its name. */
static int words_of(const json_t *start, struct strv *ret, struct mlr_error *err)
{
	const json_t *argv = json_object_get(start, "argv"),
		     *image = json_object_get(start, "image");
	const json_t *at = json_object_get(image, "word");
	const char *before = get(image, "before"), *pin = pin_of(start);
	size_t n = json_array_size(argv);

	strv_add(ret, "mlrun");
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(argv, i));

		if (!word)
			return mlr_fail(err, EPROTO, "the record's argv is no list of words");
		if (pin && json_is_integer(at) && (size_t)json_integer_value(at) == i)
			strv_addf(ret, "%s%s", before ? before : "", pin);
		else
			strv_add(ret, word);
	}
	return n > 0 ? 0 : mlr_fail(err, EPROTO, "the record has no argv");
}

/* Print as a shell takes it. */
static void print_word(const char *word)
{
	auto_free char *shown = escape_for_reader(word);

	putchar(' ');
	escape_print(stdout, shown);
}

static void print_line(const char *key, const char *value)
{
	printf("%-10s ", key);
	cli_print_line(value);
}

static int print_start(const json_t *start, struct mlr_error *err)
{
	static const char *const keys[] = { "date", "node", "mlrun", "kernel", "directory" };
	auto_strv struct strv words = STRV_INIT;
	const char *step = get(start, "step"), *pin = pin_of(start);

	TRY(words_of(start, &words, err));
	printf("%-10s %s%s%s\n", "job", get(start, "job"), step ? "." : "", step ? step : "");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (get(start, keys[i]))
			print_line(keys[i], get(start, keys[i]));
	print_line("image", pin ? pin : get(json_object_get(start, "image"), "name"));
	printf("%-10s", "command");
	for (size_t i = 0; i < words.n; i++)
		print_word(words.v[i]);
	putchar('\n');
	return 0;
}

static int print_all(json_t *list, struct mlr_error *err)
{
	json_t *start;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, start) {
		if (i > 0)
			putchar('\n');
		r = print_start(start, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* Are two starts the same but for time and node? */
static int is_same(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "argv", "directory", "image" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
			return 0;
	return 1;
}

/* The one start, or the last of a requeued job, if all are the same. */
static int choose(const json_t *list, const char *job, const json_t **ret, struct mlr_error *err)
{
	size_t n = json_array_size(list);
	const json_t *last = json_array_get(list, n - 1);

	for (size_t i = 0; i + 1 < n; i++)
		if (!is_same(json_array_get(list, i), last)) {
			mlr_fail(err, EINVAL, "job '%s' started %zu containers", job, n);
			mlr_hint(err, "mlrun rerun --show %s lists them; JOB.STEP chooses", job);
			return -EINVAL;
		}
	*ret = last;
	return 0;
}

static int start_again(const json_t *start, struct mlr_error *err)
{
	auto_strv struct strv words = STRV_INIT;
	const char *directory = get(start, "directory"), *version = get(start, "mlrun");

	TRY(words_of(start, &words, err));
	if (directory && chdir(directory) < 0)
		return mlr_fail_errno(err, "enter the job's directory '%s'", directory);
	if (!pin_of(start) ||
		!json_is_integer(json_object_get(json_object_get(start, "image"), "word")))
		mlr_warning(
			"the image's digest is not known, or its name came from a variable: what "
			"runs is what the name means now");
	if (version && strcmp(version, PACKAGE_VERSION) != 0)
		mlr_info("the job ran with mlrun %s, this is %s", version, PACKAGE_VERSION);
	execv("/proc/self/exe", strv_argv(&words));
	return mlr_fail_errno(err, "start mlrun");
}

int cmd_rerun(int argc, char **argv)
{
	json_auto_t *list = NULL;
	const json_t *start = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = runs_read(a.job, &list, &err);
	if (r == 0 && a.json)
		return cli_print_json(json_incref(list));
	if (r == 0 && a.show)
		r = print_all(list, &err);
	else if (r == 0)
		r = choose(list, a.job, &start, &err);
	if (r == 0 && start)
		r = start_again(start, &err);
	return r < 0 ? cli_fail_at(&err, "rerun") : 0;
}
