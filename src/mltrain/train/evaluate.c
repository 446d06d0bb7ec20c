#include "train/train.h"

#include "backend/ops.h"
#include "data/loader.h"

#include <math.h>

/* Compute the logarithm of one unit's softmax without overflow. */
static double log_share(const float *logits, int classes, int which)
{
	double most = (double)logits[op_argmax(classes, logits)], sum = 0;

	for (int i = 0; i < classes; i++)
		sum += exp((double)logits[i] - most);
	return (double)logits[which] - most - log(sum);
}

/* Keep the mistakes of the highest probability; of equal ones, those of the first images. */
static void keep(struct evaluation *e, const struct mistake *m)
{
	int at = e->mistaken;

	while (at > 0 && e->mistakes[at - 1].probability < m->probability)
		at--;
	if (at == EVALUATION_MISTAKES)
		return;
	if (e->mistaken < EVALUATION_MISTAKES)
		e->mistaken++;
	memmove(&e->mistakes[at + 1], &e->mistakes[at],
		(size_t)(e->mistaken - 1 - at) * sizeof(*m));
	e->mistakes[at] = *m;
}

static void count_one(
	struct evaluation *e, int details, const float *logits, uint32_t index, uint16_t label)
{
	int guess = op_argmax(e->classes, logits);

	e->count++;
	e->wrong += guess != label;
	if (guess < 0) { /* a logit is NaN */
		e->cross_entropy = NAN;
		return;
	}
	e->cross_entropy -= log_share(logits, e->classes, label);
	if (e->confusion)
		e->confusion[(size_t)label * (size_t)e->classes + (size_t)guess]++;
	if (details && guess != label) {
		struct mistake m = { index, label, (uint16_t)guess,
			(float)exp(log_share(logits, e->classes, guess)) };

		keep(e, &m);
	}
}

static int is_stopped(const struct evaluation_of *what)
{
	return what->stop && *what->stop;
}

/* Predict the images first..end-1. Returns 0 early if stopped. */
static int predict_range(const struct evaluation_of *what, uint32_t first, uint32_t end,
	struct evaluation *e, struct mlr_error *err)
{
	const struct loader_options options = {
		.rows = what->engine->batch, .ahead = 2, .threads = what->threads
	};
	size_t count = (size_t)options.rows * (size_t)e->classes;
	auto_free float *logits = calloc(count, sizeof(*logits));
	auto_call(loader_close) struct loader *loader = NULL;
	struct batch batch;
	int r = 0;

	if (!logits)
		return mlr_fail(
			err, ENOMEM, "%zu bytes of memory for logits", count * sizeof(*logits));
	TRY(loader_open(what->set, what->data, &options, &loader, err));
	loader_start_range(loader, first, end - first);
	while (!is_stopped(what) && (r = loader_take(loader, 1, &batch, err)) > 0) {
		TRY(engine_predict(what->engine, &batch, logits, err));
		for (int i = 0; i < batch.rows; i++)
			count_one(e, what->details, logits + (size_t)i * (size_t)e->classes,
				first++, batch.labels[i]);
	}
	return r < 0 ? r : 0;
}

/* Sum the counts over the ranks. One stopped rank stops all. */
static int sum_counts(const struct evaluation_of *what, struct evaluation *e, struct mlr_error *err)
{
	const struct exchange *x = &what->dist->exchange;
	size_t cells = e->confusion ? (size_t)e->classes * (size_t)e->classes : 0;
	auto_free double *sums = xcalloc(4 + cells, sizeof(*sums));

	sums[0] = e->count;
	sums[1] = (double)e->wrong;
	sums[2] = e->cross_entropy;
	sums[3] = is_stopped(what);
	for (size_t i = 0; i < cells; i++)
		sums[4 + i] = e->confusion[i];
	TRY(x->sum(x->ctx, sums, 4 + cells, err));
	e->count = (uint32_t)sums[0];
	e->wrong = (int64_t)sums[1];
	e->cross_entropy = sums[2];
	for (size_t i = 0; i < cells; i++)
		e->confusion[i] = (uint32_t)sums[4 + i];
	return sums[3] > 0 ? -EINTR : 0;
}

struct mistakes {
	struct mistake list[EVALUATION_MISTAKES];
	int n;
};

/* Gather the worst of all ranks' mistakes on rank 0; of equal ones, those of the first images. */
static int gather_mistakes(
	const struct evaluation_of *what, struct evaluation *e, struct mlr_error *err)
{
	struct dist *d = what->dist;
	struct mistakes own = { .n = e->mistaken };
	auto_free struct mistakes *all = xcalloc((size_t)d->ranks, sizeof(*all));

	memcpy(own.list, e->mistakes, sizeof(own.list));
	TRY(d->ops->gather(d, &own, sizeof(own), all, err));
	if (d->rank != 0)
		return 0;
	for (int k = 1; k < d->ranks; k++)
		for (int i = 0; i < all[k].n && i < EVALUATION_MISTAKES; i++)
			keep(e, &all[k].list[i]);
	return 0;
}

int evaluate(const struct evaluation_of *what, struct evaluation *ret, struct mlr_error *err)
{
	auto_call(evaluate_done) struct evaluation e = { .classes = what->classes };
	uint64_t rank = what->dist ? (uint64_t)what->dist->rank : 0;
	uint64_t ranks = what->dist ? (uint64_t)what->dist->ranks : 1;

	if (what->details && e.classes <= EVALUATION_CLASSES)
		e.confusion = xcalloc((size_t)e.classes * (size_t)e.classes, sizeof(*e.confusion));
	TRY(predict_range(what, (uint32_t)(what->count * rank / ranks),
		(uint32_t)(what->count * (rank + 1) / ranks), &e, err));
	TRY(ranks > 1 ? sum_counts(what, &e, err) : is_stopped(what) ? -EINTR : 0);
	if (ranks > 1 && what->details)
		TRY(gather_mistakes(what, &e, err));
	if (e.count)
		e.cross_entropy /= e.count;
	*ret = take_struct(&e, { 0 });
	return 0;
}

void evaluate_done(struct evaluation *e)
{
	free(e->confusion);
	*e = (struct evaluation){ 0 };
}
