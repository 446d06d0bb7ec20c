#include "model/recipe.h"

#include "base/json.h"
#include "base/record.h"
#include "optimiser/optimiser.h"

#include <math.h>

static double clamp(double v)
{
	return !(v > 0) ? 0 : v > 1 ? 1 : v;
}

/* Return the position between two steps: 0 up to from, 1 at to and after. */
static double share(double step, double from, double to)
{
	return to > from ? clamp((step - from) / (to - from)) : step >= to;
}

static double steps_factor(const struct schedule *s, double epochs)
{
	double factor = 1;

	for (int i = 0; i < s->ats; i++)
		if (epochs >= s->at[i])
			factor *= s->decay;
	return factor;
}

static double one_cycle_factor(const struct schedule *s, double step, double last)
{
	double top = s->rise * last;

	if (step < top)
		return s->start + (1 - s->start) * share(step, 0, top);
	return 1 + (s->final - 1) * (last > top ? share(step, top, last) : 0);
}

uint32_t recipe_validation(const struct recipe *r, uint32_t images)
{
	if (r->validation != RECIPE_VALIDATION_UNSAID)
		return r->validation;
	return images / 10 < RECIPE_VALIDATION ? images / 10 : RECIPE_VALIDATION;
}

double recipe_lr(const struct recipe *r, uint64_t step, uint64_t epoch_steps, uint64_t steps)
{
	const struct schedule *s = &r->schedule;
	double per_epoch = epoch_steps ? (double)epoch_steps : 1;
	double at = (double)step, last = steps > 1 ? (double)(steps - 1) : 0;
	double warm = s->kind == SCHEDULE_ONE_CYCLE ? 0 : s->warmup * per_epoch;
	double factor = 1;

	switch (s->kind) {
	case SCHEDULE_CONSTANT:
		break;
	case SCHEDULE_EXPONENTIAL:
		factor = pow(s->decay, (double)(step / (epoch_steps ? epoch_steps : 1)));
		break;
	case SCHEDULE_STEPS:
		factor = steps_factor(s, at / per_epoch);
		break;
	case SCHEDULE_COSINE:
		factor = s->final +
			(1 - s->final) * (1 + cos(M_PI * (at > warm ? share(at, warm, last) : 0))) /
				2;
		break;
	case SCHEDULE_ONE_CYCLE:
		factor = one_cycle_factor(s, at, last);
		break;
	}
	return r->lr * factor * (warm > 0 ? clamp((at + 1) / warm) : 1);
}

#define MANNER RECORD_ONLY | RECORD_NO_NULL

/* --- the schedule ----------------------------------------------------------------- */

/* In the order of enum schedule_kind. */
static const char *const names[] = { "constant", "exponential", "steps", "cosine", "one-cycle" };

/* Read "at": the epochs, in increasing order, at which the rate falls. */
static int read_at(const struct record_reader *r, const json_t *v, void *to)
{
	struct schedule *s = to;
	size_t n = json_array_size(v);

	if (n < 1 || n > SCHEDULE_STEPS_MAX)
		return record_wrong(r, "expected a list of 1 to %d epochs", SCHEDULE_STEPS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(v, i);
		double was = i ? s->at[i - 1] : 0;

		if (!json_is_number(one) || !(json_number_value(one) > was) ||
			json_number_value(one) > 1e9)
			return record_wrong(
				r, "expected numbers above 0, each above the one before it");
		s->at[i] = json_number_value(one);
	}
	s->ats = (int)n;
	return 0;
}

static json_t *write_at(const void *from)
{
	const struct schedule *s = from;
	return MLR_JSON_LIST(i, s->ats, json_real(s->at[i]));
}

#define KIND \
	RECORD_WORD, RECORD_AT(struct schedule, kind), RECORD_WORDS(names), .flags = RECORD_MUST
#define REAL(member, limit) RECORD_REAL, RECORD_AT(struct schedule, member), .most = (limit)

static const struct record_row kind_rows[] = { { "kind", KIND }, { NULL } };
static const struct record_row constant_rows[] = { { "kind", KIND },
	{ "warmup", REAL(warmup, 1e6) }, { NULL } };
static const struct record_row exponential_rows[] = { { "kind", KIND }, { "decay", REAL(decay, 1) },
	{ "warmup", REAL(warmup, 1e6) }, { NULL } };
static const struct record_row steps_rows[] = { { "kind", KIND }, { "decay", REAL(decay, 1) },
	{ "warmup", REAL(warmup, 1e6) },
	{ "at", RECORD_OWN, .flags = RECORD_MUST, .read = read_at, .write = write_at }, { NULL } };
static const struct record_row cosine_rows[] = { { "kind", KIND }, { "final", REAL(final, 1) },
	{ "warmup", REAL(warmup, 1e6) }, { NULL } };
static const struct record_row one_cycle_rows[] = { { "kind", KIND }, { "start", REAL(start, 1) },
	{ "final", REAL(final, 1) }, { "rise", REAL(rise, 1) }, { NULL } };

/* In the same order: each kind's keys and their defaults. */
static const struct kind {
	const struct record_row *rows;
	struct schedule defaults;
} kinds[] = {
	{ constant_rows, { 0 } },
	{ exponential_rows, { .decay = 0.95 } },
	{ steps_rows, { .decay = 0.1 } },
	{ cosine_rows, { 0 } },
	{ one_cycle_rows, { .start = 0.04, .rise = 0.3 } },
};

static int read_schedule(const struct record_reader *r, const json_t *v, void *to)
{
	const struct record_reader any = {
		.manner = RECORD_NO_NULL, .err = r->err, .code = r->code
	};
	const struct kind *k;
	struct schedule s = { 0 };

	TRY(record_read(&any, kind_rows, v, &s));
	k = &kinds[s.kind];
	s = k->defaults;
	TRY(record_read(r, k->rows, v, &s));
	*(struct schedule *)to = s;
	return 0;
}

static json_t *write_schedule(const void *from)
{
	return record_write(kinds[((const struct schedule *)from)->kind].rows, from);
}

int recipe_schedule_parse(const json_t *object, struct schedule *ret, struct mlr_error *err)
{
	const struct record_reader r = { .manner = MANNER, .err = err, .code = EINVAL };

	return read_schedule(&r, object, ret);
}

/* --- the recipe ------------------------------------------------------------------- */

static int read_optimiser(const struct record_reader *r, const json_t *v, void *to)
{
	const char *all[OPTIMISERS];
	int which;

	for (size_t i = 0; i < OPTIMISERS; i++)
		all[i] = optimisers[i].name;
	which = record_word(r, all, OPTIMISERS, v);
	if (which >= 0)
		*(int *)to = which;
	return which < 0 ? which : 0;
}

static json_t *write_optimiser(const void *from)
{
	int which = *(const int *)from;

	return which == OPTIMISER_SGD ? NULL : json_string(optimisers[which].name);
}

static const struct record_row augment_rows[] = {
	{ "shift", RECORD_NUMBER, RECORD_AT(struct augment_policy, shift), .max = 127 },
	{ "flip", RECORD_FLAG, RECORD_AT(struct augment_policy, flip) },
	{ "cutout", RECORD_NUMBER, RECORD_AT(struct augment_policy, cut), .max = 255 },
	{ NULL },
};

static int read_augment(const struct record_reader *r, const json_t *v, void *to)
{
	*(struct augment_policy *)to = (struct augment_policy){ 0 };
	return record_read(r, augment_rows, v, to);
}

static json_t *write_augment(const void *from)
{
	return record_write(augment_rows, from);
}

#define AT(member) RECORD_AT(struct recipe, member)

static const struct record_row rows[] = {
	{ "epochs", RECORD_NUMBER, AT(epochs), .min = 1, .max = 1000000 },
	{ "batch", RECORD_NUMBER, AT(batch), .min = 1, .max = RECIPE_BATCH_MAX },
	{ "lr", RECORD_REAL, AT(lr), .most = 1e6 },
	{ "momentum", RECORD_REAL, AT(momentum), .most = 1 },
	{ "l2", RECORD_REAL, AT(l2), .most = 1e6 },
	{ "schedule", RECORD_OWN, AT(schedule), .read = read_schedule, .write = write_schedule },
	{ "augment", RECORD_OWN, AT(augment), .read = read_augment, .write = write_augment },
	{ "optimiser", RECORD_OWN, AT(optimiser), .read = read_optimiser,
		.write = write_optimiser },
	{ "label_smoothing", RECORD_REAL, AT(smoothing), .most = 1, .flags = RECORD_SPARE },
	{ "validation", RECORD_NUMBER, AT(validation), .max = RECIPE_VALIDATION_UNSAID - 1,
		.flags = RECORD_SPARE, .none = RECIPE_VALIDATION_UNSAID },
	{ NULL },
};

int recipe_parse(const json_t *object, struct recipe *ret, struct mlr_error *err)
{
	const struct record_reader r = { .manner = MANNER, .err = err, .code = EINVAL };
	struct recipe recipe = *ret;

	if (record_read(&r, rows, object, &recipe) < 0)
		return mlr_wrap(err, "train");
	*ret = recipe;
	return 0;
}

json_t *recipe_json(const struct recipe *r)
{
	return record_write(rows, r);
}
