/* mltrain predict: names what pictures show. */
#include "cli/mltrain.h"

#include "base/escape.h"
#include "base/json.h"
#include "data/idx.h"
#include "data/pixels.h"
#include "cli/arg.h"

#define BATCH_MAX 64 /* pictures at once */

struct args {
	struct predictor_options use; /* first, as predictor_check() has it */
	struct strv files;
	int top, json;
};

static const struct option_row options[] = { { "top", 0, "N", 0,
						     "classes printed for each picture (1)", 3,
						     OPT_COUNT(struct args, top, 1, 65536) },
	{ "json", 0, NULL, 0, "print a JSON object for each picture, with the logits", 3,
		OPT(struct args, json) },
	{ 0 } };

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "FILE...",
	.doc = "Print the class that a network predicts for each picture, and its probability. Pictures of "
	       "another size than the network's are scaled and cropped around the centre.",
	.shared = { { predictor_rows, offsetof(struct args, use) } },
	.operands = { OPT(struct args, files) },
	.needed = 1,
	.missing =
		"which pictures? give PNG or JPEG files, FILE:NUMBER for an image of an IDX file, "
		"or - for standard input",
	.check = predictor_check,
};

/* --- pictures --- */

static int read_stdin(const struct image_size *want, uint8_t *to, struct mlr_error *err)
{
	auto_free char *bytes = NULL;
	size_t len = 0, room = 0;
	ssize_t n;

	do {
		if (len == room) {
			room = room ? 2 * room : 1 << 16;
			bytes = xreallocarray(bytes, room, 1);
		}
		n = file_read_full(STDIN_FILENO, bytes + len, room - len);
		if (n < 0)
			return mlr_result(err, (int)n, "read standard input");
		len += (size_t)n;
		if (len > IMAGE_FILE_MAX)
			return mlr_fail(err, EFBIG, "standard input has more than %zu bytes",
				IMAGE_FILE_MAX);
	} while (n > 0);
	return image_read_bytes(bytes, len, want, to, err) < 0 ? mlr_wrap(err, "standard input")
							       : 0;
}

/* Read image `number`, from 0, of an IDX file. */
static int read_idx(const char *path, uint64_t number, const struct image_size *want, uint8_t *to,
	struct mlr_error *err)
{
	auto_call(idx_done) struct idx x = { 0 };
	auto_call(pixels_done) struct pixels fitted = PIXELS_INIT;
	struct pixels p = PIXELS_INIT;
	int r;

	TRY(idx_read(path, 3, &x, err));
	if (number >= x.dim[0])
		return mlr_fail(err, EINVAL, "'%s' has images 0 to %u, but no %" PRIu64, path,
			x.dim[0] - 1, number);
	p.size = (struct image_size){ 1, x.dim[1], x.dim[2] };
	p.data = x.data + number * x.dim[1] * x.dim[2]; /* borrowed */
	r = pixels_check(p.size.height, p.size.width, err);
	if (r == 0)
		r = pixels_fit(&p, want->height, want->width, &fitted, err);
	if (r < 0)
		return mlr_wrap(err, "'%s'", path);
	pixels_to_planes(&fitted, want, to);
	return 0;
}

/* Split "FILE:NUMBER", unless a file has that whole name. */
static int is_idx_place(const char *name, char **path, uint64_t *number)
{
	const char *colon = strrchr(name, ':');
	char *end;

	if (!colon || colon == name || colon[1] < '0' || colon[1] > '9' || access(name, F_OK) == 0)
		return 0;
	errno = 0;
	*number = strtoull(colon + 1, &end, 10);
	if (*end || errno)
		return 0;
	*path = xasprintf("%.*s", (int)(colon - name), name);
	return 1;
}

static int read_picture(
	const char *name, const struct image_size *want, uint8_t *to, struct mlr_error *err)
{
	auto_free char *path = NULL;
	uint64_t number;
	int r;

	if (strcmp(name, "-") == 0)
		return read_stdin(want, to, err);
	if (is_idx_place(name, &path, &number))
		return read_idx(path, number, want, to, err);
	r = image_read(name, want, to, err);
	if (r == -EPROTO && strstr(name, "-ubyte"))
		mlr_hint(err, "of an IDX file '%s:0' is the first image", name);
	return r;
}

/* --- answers --- */

/* Put the indices of the most probable classes first. */
static void rank_classes(const double *p, int n, int top, int *order)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = 0; i < top; i++) {
		int best = i, other = order[i];

		for (int k = i + 1; k < n; k++)
			if (p[order[k]] > p[order[best]])
				best = k;
		order[i] = order[best];
		order[best] = other;
	}
}

static json_t *class_json(const struct predictor *p, int class, double share)
{
	char buf[12];

	return json_pack("{s:i, s:o, s:f}", "class", class, "name",
		mlr_json_text(predictor_class(p, class, buf)), "probability", share);
}

static json_t *answer_json(const struct predictor *p, const char *file, const float *logits,
	const double *share, const int *order, int top)
{
	return json_pack("{s:o, s:o, s:o, s:s}", "file", mlr_json_text(file), "classes",
		MLR_JSON_LIST(i, top, class_json(p, order[i], share[order[i]])), "logits",
		MLR_JSON_LIST(i, p->from.net->classes, json_real((double)logits[i])), "weights",
		p->from.weights);
}

static void answer_text(const struct args *a, const struct predictor *p, const char *file,
	const double *share, const int *order, int top)
{
	for (int i = 0; i < top; i++) {
		char buf[12];

		if (a->files.n > 1) {
			escape_print(stdout, file);
			fputs(": ", stdout);
		}
		escape_print(stdout, predictor_class(p, order[i], buf));
		printf(" %.2f %%\n", 100 * share[order[i]]);
	}
}

static int answer(const struct args *a, const struct predictor *p, const char *file,
	const float *logits, struct mlr_error *err)
{
	int n = p->from.net->classes, top = a->top < n ? a->top : n;
	auto_free double *share = xcalloc((size_t)n, sizeof(*share));
	auto_free int *order = xcalloc((size_t)n, sizeof(*order));

	if (!predictor_is_finite(logits, n))
		return mlr_fail(err, EDOM, "'%s': the network's answer is not a number", file);
	predictor_probabilities(logits, n, share);
	rank_classes(share, n, top, order);
	if (a->json) {
		json_auto_t *o = answer_json(p, file, logits, share, order, top);

		if (!o || json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) < 0)
			return mlr_fail(err, EIO, "write the answer to stdout");
		putchar('\n');
	} else {
		answer_text(a, p, file, share, order, top);
	}
	return 0;
}

/* Predict the pictures first..first+n-1 as one batch. Report and skip unreadable ones. */
static int predict(const struct args *a, const struct predictor *p, int first, int n,
	uint8_t *images, float *logits, int *left_out, struct mlr_error *err)
{
	const struct shape *in = &p->from.net->input;
	const struct image_size want = { (uint32_t)in->dim[0], (uint32_t)in->dim[1],
		(uint32_t)in->dim[2] };
	auto_free char **files = xcalloc((size_t)n, sizeof(*files));
	struct batch batch = { .images = images };
	int r = 0;

	for (int i = 0; i < n; i++) {
		uint8_t *to = images + (size_t)batch.rows * shape_count(in);
		struct mlr_error why = MLR_ERROR_INIT;

		if (read_picture(a->files.v[first + i], &want, to, &why) < 0)
			*left_out = main_fail(&why);
		else
			files[batch.rows++] = a->files.v[first + i];
	}
	if (batch.rows > 0)
		r = engine_predict(p->engine, &batch, logits, err);
	for (int i = 0; i < batch.rows && r == 0; i++)
		r = answer(a, p, files[i], logits + (size_t)i * (size_t)p->from.net->classes, err);
	return r;
}

/* Check that pictures can be converted to what the network reads. */
static int check_input(const struct args *a, const struct shape *in, struct mlr_error *err)
{
	char text[SHAPE_TEXT_MAX];

	if ((in->dim[0] == 1 || in->dim[0] == 3) && in->dim[1] <= IMAGE_SIDE_MAX &&
		in->dim[2] <= IMAGE_SIDE_MAX)
		return 0;
	return mlr_fail(err, EINVAL,
		"checkpoint '%s' reads images of %s; pictures have 1 or 3 channels and at most %d "
		"pixels in a row or column",
		a->use.checkpoint, shape_text(in, text), IMAGE_SIDE_MAX);
}

static int run(const struct args *a, int *left_out, struct mlr_error *err)
{
	auto_call(predictor_done) struct predictor p = { 0 };
	auto_free uint8_t *images = NULL;
	auto_free float *logits = NULL;
	size_t one, classes;
	int batch, n = (int)a->files.n, r;

	TRY(predictor_open(&a->use, &p, err));
	r = check_input(a, &p.from.net->input, err);
	if (r < 0)
		return r;
	batch = p.engine->batch;
	one = shape_count(&p.from.net->input);
	classes = (size_t)p.from.net->classes;
	images = calloc((size_t)batch, one);
	logits = calloc((size_t)batch * classes, sizeof(*logits));
	if (!images || !logits)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for %d pictures",
			(size_t)batch * (one + classes * sizeof(*logits)), batch);
	for (int at = 0; at < n && r == 0; at += batch)
		r = predict(
			a, &p, at, n - at < batch ? n - at : batch, images, logits, left_out, err);
	if (r == 0 && fflush(stdout))
		return mlr_fail_errno(err, "write the answer to stdout");
	return r;
}

int cmd_predict(int argc, char **argv)
{
	struct args a = { .use = predictor_options(), .top = 1 };
	struct mlr_error err = MLR_ERROR_INIT;
	int left_out = 0; /* the exit status */

	options_parse("mltrain predict", argc, argv, &syntax, &a);
	a.use.batch = a.files.n < BATCH_MAX ? (int)a.files.n : BATCH_MAX;
	if (run(&a, &left_out, &err) < 0)
		left_out = main_fail(&err);
	strv_done(&a.files);
	return left_out;
}
