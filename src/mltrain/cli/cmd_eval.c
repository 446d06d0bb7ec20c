/* mltrain eval: tests a checkpoint on a data set's test images. */
#include "cli/mltrain.h"

#include "base/escape.h"
#include "data/dataset.h"
#include "cli/arg.h"
#include "train/train.h"

#define MATRIX_CLASSES 20 /* as many as a terminal has columns for */

struct args {
	struct predictor_options use; /* first, as predictor_check() has it */
	const char *data;
	int json, quiet;
};

static const struct option_row options[] = {
	{ "data", 'd', "DIR", 0,
		"the data set: a directory or a name such as fashion-mnist (the one of training)",
		1, OPT(struct args, data) },
	{ "json", 0, NULL, 0, "print one JSON object, including the worst mistakes", 3,
		OPT(struct args, json) },
	{ "quiet", 'q', NULL, 0, "print only the accuracy", 3, OPT(struct args, quiet) }, { 0 }
};

static const struct options_syntax syntax = {
	.options = options,
	.doc = "Test a checkpoint on a data set's test images: print its accuracy, that of each class, and which "
	       "classes it confuses.",
	.shared = { { predictor_rows, offsetof(struct args, use) } },
	.surplus = "not an option; the weights are given with --checkpoint",
	.check = predictor_check,
};

static int check(const struct args *a, const struct checkpoint *c, const struct dataset *d,
	struct mlr_error *err)
{
	const struct net *net = c->net;
	char input[SHAPE_TEXT_MAX];

	if ((uint32_t)net->input.dim[0] != d->channels ||
		(uint32_t)net->input.dim[1] != d->height || (uint32_t)net->input.dim[2] != d->width)
		return mlr_fail(err, EINVAL,
			"checkpoint '%s' reads images of %s but '%s' has %ux%ux%u",
			a->use.checkpoint, shape_text(&net->input, input), d->dir, d->channels,
			d->height, d->width);
	if (d->classes > net->classes)
		return mlr_fail(err, EINVAL,
			"checkpoint '%s' tells %d classes apart but '%s' has a label %d",
			a->use.checkpoint, net->classes, d->dir, d->classes - 1);
	return 0;
}

/* Find the network's class of a name, usually the one with the same number; -1: none. */
static int find_class(const struct checkpoint *c, const char *name, int number)
{
	int n = c->net->classes;

	for (int i = 0; i < n; i++)
		if (strcmp(c->names[(number + i) % n], name) == 0)
			return (number + i) % n;
	return -1;
}

/* Match classes by name if both have names: a data set may lack classes or order them differently.
 */
static int match_classes(
	const struct args *a, const struct checkpoint *c, struct dataset *d, struct mlr_error *err)
{
	auto_free uint16_t *of = xcalloc((size_t)d->classes + 1, sizeof(*of));

	for (int i = 0; i < d->classes; i++) {
		json_auto_t *utf8 = json_string(d->names[i]);
		char number[12];
		int k;

		/* A checkpoint has the number in place of a name that is not UTF-8. */
		snprintf(number, sizeof(number), "%d", i);
		k = find_class(c, utf8 ? d->names[i] : number, i);

		if (k < 0)
			return mlr_fail(err, EINVAL,
				"checkpoint '%s' knows no class '%s', which '%s' has",
				a->use.checkpoint, d->names[i], d->dir);
		of[i] = (uint16_t)k;
	}
	for (uint32_t i = 0; i < d->test.count; i++)
		d->test.labels[i] = of[d->test.labels[i]];
	return 0;
}

static int open_data(const struct args *a, const struct checkpoint *c, struct dataset *ret,
	struct mlr_error *err)
{
	const struct shape *in = &c->net->input;
	const struct dataset_wish wish = { .channels = (uint32_t)in->dim[0],
		.height = (uint32_t)in->dim[1],
		.width = (uint32_t)in->dim[2],
		.seed = 1,
		.threads = a->use.threads };
	const char *data = a->data ? a->data : c->data;

	if (!data) {
		mlr_fail(err, EINVAL, "checkpoint '%s' does not name its data set",
			a->use.checkpoint);
		return mlr_hint(err, "give --data");
	}
	TRY(dataset_load(data, DATASET_TEST, &wish, ret, err));
	if (c->names && ret->names)
		TRY(match_classes(a, c, ret, err));
	return check(a, c, ret, err);
}

/* --- for people ------------------------------------------------------------------------------- */

/* Format a class's name safely for a terminal, in exactly so many columns. */
static void print_name(const struct predictor *p, int class, int columns)
{
	char buf[12], shown[ESCAPE_SIZE];
	const char *s = predictor_class(p, class, buf);
	int used = 0;

	while (*s && used < columns) {
		s += escape_next(s, shown);
		fputs(shown, stdout);
		/* Continuation bytes of UTF-8 take no column. */
		used += ((unsigned char)shown[0] & 0xc0) != 0x80 ? (int)strlen(shown) : 0;
	}
	while ((unsigned char)*s >> 6 == 2) /* do not cut a character */
		putchar(*s++);
	printf("%*s", used < columns ? columns - used : 0, "");
}

static void print_classes(const struct predictor *p, const struct evaluation *e)
{
	size_t n = (size_t)e->classes;

	printf("\n%-24s %8s %8s %9s\n", "class", "images", "wrong", "error");
	for (size_t i = 0; i < n; i++) {
		uint64_t images = 0, right = e->confusion[i * n + i];

		for (size_t k = 0; k < n; k++)
			images += e->confusion[i * n + k];
		print_name(p, (int)i, 24);
		printf(" %8llu %8llu", (unsigned long long)images,
			(unsigned long long)(images - right));
		if (images)
			printf(" %7.2f %%\n", 100 * (double)(images - right) / (double)images);
		else
			printf(" %9s\n", "-");
	}
}

static void print_confusion(const struct predictor *p, const struct evaluation *e)
{
	size_t n = (size_t)e->classes;

	if (n > MATRIX_CLASSES) {
		printf("\nwhich class is taken for which: --json tells it of %zu classes\n", n);
		return;
	}
	printf("\na row's images are taken for the class of the column\n%-24s", "");
	for (size_t k = 0; k < n; k++)
		printf(" %5zu", k);
	putchar('\n');
	for (size_t i = 0; i < n; i++) {
		printf("%2zu ", i);
		print_name(p, (int)i, 21);
		for (size_t k = 0; k < n; k++)
			printf(" %5u", e->confusion[i * n + k]);
		putchar('\n');
	}
}

static int print(const struct args *a, const struct predictor *p, const struct dataset *data,
	const struct evaluation *e, struct mlr_error *err)
{
	if (a->json) {
		json_auto_t *record = test_record(e, data, p->from.names, p->from.step);

		json_object_set_new(record, "weights", json_string(p->from.weights));
		if (!record || json_dumpf(record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)))
			return mlr_fail(err, EIO, "write the result to stdout");
		putchar('\n');
	} else {
		print_accuracy(e->wrong, e->count);
		if (!a->quiet)
			printf("weights %s\n", p->from.weights);
		if (!a->quiet && e->confusion) {
			print_classes(p, e);
			print_confusion(p, e);
		}
	}
	if (fflush(stdout))
		return mlr_fail_errno(err, "write the result to stdout");
	return 0;
}

static int run(const struct args *a, struct mlr_error *err)
{
	auto_call(dataset_done) struct dataset data = { 0 };
	auto_call(predictor_done) struct predictor p = { 0 };
	auto_call(evaluate_done) struct evaluation e = { 0 };
	struct evaluation_of what;
	int r;

	if ((r = predictor_open(&a->use, &p, err)) < 0 ||
		(r = open_data(a, &p.from, &data, err)) < 0)
		return r;
	what = (struct evaluation_of){ .engine = p.engine,
		.data = &data,
		.set = &data.test,
		.count = data.test.count,
		.classes = p.from.net->classes,
		.threads = a->use.threads,
		.details = 1 };
	TRY(evaluate(&what, &e, err));
	return print(a, &p, &data, &e, err);
}

int cmd_eval(int argc, char **argv)
{
	struct args a = { .use = predictor_options() };
	struct mlr_error err = MLR_ERROR_INIT;

	options_parse("mltrain eval", argc, argv, &syntax, &a);
	return run(&a, &err) < 0 ? main_fail(&err) : 0;
}
