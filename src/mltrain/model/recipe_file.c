#include "model/recipe_file.h"

#include "base/base.h"
#include "model/fields.h"
#include "optimiser/optimiser.h"

#define KEYS_MAX 5

/* In the order of enum schedule_kind: each kind's word, its keys and their defaults. */
static const struct kind {
	const char *name;
	const char *keys[KEYS_MAX];
	struct schedule defaults;
} kinds[] = {
	{ "constant", { "kind", "warmup" }, { .kind = SCHEDULE_CONSTANT } },
	{ "exponential", { "kind", "decay", "warmup" },
		{ .kind = SCHEDULE_EXPONENTIAL, .decay = 0.95 } },
	{ "steps", { "kind", "decay", "at", "warmup" }, { .kind = SCHEDULE_STEPS, .decay = 0.1 } },
	{ "cosine", { "kind", "final", "warmup" }, { .kind = SCHEDULE_COSINE } },
	{ "one-cycle", { "kind", "start", "final", "rise" },
		{ .kind = SCHEDULE_ONE_CYCLE, .start = 0.04, .rise = 0.3 } },
};

static const struct kind *kind_of(const struct schedule *s)
{
	return &kinds[s->kind];
}

static int has_key(const struct kind *k, const char *key)
{
	for (size_t i = 0; i < KEYS_MAX && k->keys[i]; i++)
		if (strcmp(k->keys[i], key) == 0)
			return 1;
	return 0;
}

/* Read "at": the epochs, in increasing order, at which the rate falls. */
static int parse_at(const json_t *object, struct schedule *s, struct mlr_error *err)
{
	const json_t *at = json_object_get(object, "at");
	size_t n = json_array_size(at);

	if (!json_is_array(at) || n < 1 || n > SCHEDULE_STEPS_MAX)
		return mlr_fail(
			err, EINVAL, "'at' must be an array of 1 to %d epochs", SCHEDULE_STEPS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(at, i);
		double was = i ? s->at[i - 1] : 0;

		if (!json_is_number(v) || !(json_number_value(v) > was) ||
			json_number_value(v) > 1e9)
			return mlr_fail(err, EINVAL,
				"'at' must hold numbers above 0, each above the one before it");
		s->at[i] = json_number_value(v);
	}
	s->ats = (int)n;
	return 0;
}

int recipe_schedule_parse(const json_t *object, struct schedule *ret, struct mlr_error *err)
{
	const char *words[ARRAY_LEN(kinds)];
	size_t which = ARRAY_LEN(kinds);
	struct schedule s;
	char whose[64];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		words[i] = kinds[i].name;
	r = fields_word(object, "kind", words, ARRAY_LEN(kinds), &which, err);
	if (r < 0)
		return r;
	if (which == ARRAY_LEN(kinds))
		return mlr_fail(err, EINVAL, "'kind' is missing: constant, exponential, …");
	snprintf(whose, sizeof(whose), "a schedule of kind %s", kinds[which].name);
	s = kinds[which].defaults;
	if ((r = fields_known(object, kinds[which].keys, KEYS_MAX, whose, err)) < 0 ||
		(r = fields_number(object, "decay", 0, 1, &s.decay, err)) < 0 ||
		(r = fields_number(object, "start", 0, 1, &s.start, err)) < 0 ||
		(r = fields_number(object, "final", 0, 1, &s.final, err)) < 0 ||
		(r = fields_number(object, "rise", 0, 1, &s.rise, err)) < 0 ||
		(r = fields_number(object, "warmup", 0, 1e6, &s.warmup, err)) < 0)
		return r;
	if (s.kind == SCHEDULE_STEPS && (r = parse_at(object, &s, err)) < 0)
		return r;
	*ret = s;
	return 0;
}

static int parse_augment(const json_t *object, struct augment_policy *ret, struct mlr_error *err)
{
	static const char *const keys[] = { "shift", "flip", "cutout" };
	long long shift = 0, cut = 0;
	int r, flip = 0;

	if ((r = fields_known(object, keys, ARRAY_LEN(keys), "'augment'", err)) < 0 ||
		(r = fields_count(object, "shift", 0, 127, &shift, err)) < 0 ||
		(r = fields_flag(object, "flip", &flip, err)) < 0 ||
		(r = fields_count(object, "cutout", 0, 255, &cut, err)) < 0)
		return r;
	*ret = (struct augment_policy){ .shift = (int)shift, .flip = flip, .cut = (int)cut };
	return 0;
}

static int parse_numbers(const json_t *object, struct recipe *ret, struct mlr_error *err)
{
	long long epochs = ret->epochs, batch = ret->batch, validation = ret->validation;
	int r;

	if ((r = fields_count(object, "epochs", 1, 1000000, &epochs, err)) < 0 ||
		(r = fields_count(object, "batch", 1, RECIPE_BATCH_MAX, &batch, err)) < 0 ||
		(r = fields_number(object, "lr", 0, 1e6, &ret->lr, err)) < 0 ||
		(r = fields_number(object, "momentum", 0, 1, &ret->momentum, err)) < 0 ||
		(r = fields_number(object, "l2", 0, 1e6, &ret->l2, err)) < 0 ||
		(r = fields_number(object, "label_smoothing", 0, 1, &ret->smoothing, err)) < 0 ||
		(r = fields_count(object, "validation", 0, RECIPE_VALIDATION_UNSAID - 1,
			 &validation, err)) < 0)
		return r;
	ret->epochs = (int)epochs;
	ret->batch = (int)batch;
	ret->validation = (uint32_t)validation;
	return 0;
}

static int parse_optimiser(const json_t *object, struct recipe *ret, struct mlr_error *err)
{
	const char *names[OPTIMISERS];
	size_t which = (size_t)ret->optimiser;
	int r;

	for (size_t i = 0; i < OPTIMISERS; i++)
		names[i] = optimisers[i].name;
	r = fields_word(object, "optimiser", names, OPTIMISERS, &which, err);
	ret->optimiser = (int)which;
	return r;
}

static int parse(const json_t *object, struct recipe *ret, struct mlr_error *err)
{
	static const char *const keys[] = { "epochs", "batch", "optimiser", "lr", "momentum", "l2",
		"label_smoothing", "schedule", "augment", "validation" };
	const json_t *schedule = NULL, *augment = NULL;
	int r;

	if ((r = fields_known(object, keys, ARRAY_LEN(keys), "'train'", err)) < 0 ||
		(r = parse_numbers(object, ret, err)) < 0 ||
		(r = parse_optimiser(object, ret, err)) < 0 ||
		(r = fields_object(object, "schedule", &schedule, err)) < 0 ||
		(r = fields_object(object, "augment", &augment, err)) < 0)
		return r;
	if (schedule && recipe_schedule_parse(schedule, &ret->schedule, err) < 0)
		return mlr_wrap(err, "schedule");
	if (augment && parse_augment(augment, &ret->augment, err) < 0)
		return mlr_wrap(err, "augment");
	return 0;
}

int recipe_parse(const json_t *object, struct recipe *ret, struct mlr_error *err)
{
	struct recipe recipe = *ret;

	if (parse(object, &recipe, err) < 0)
		return mlr_wrap(err, "train");
	*ret = recipe;
	return 0;
}

static json_t *schedule_json(const struct schedule *s)
{
	const struct {
		const char *key;
		double value;
	} members[] = { { "decay", s->decay }, { "start", s->start }, { "final", s->final },
		{ "rise", s->rise }, { "warmup", s->warmup } };
	const struct kind *k = kind_of(s);
	json_t *o = json_pack("{s:s}", "kind", k->name), *at;

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (has_key(k, members[i].key))
			json_object_set_new(o, members[i].key, json_real(members[i].value));
	if (s->kind == SCHEDULE_STEPS) {
		at = json_array();
		for (int i = 0; i < s->ats; i++)
			json_array_append_new(at, json_real(s->at[i]));
		json_object_set_new(o, "at", at);
	}
	return o;
}

json_t *recipe_json(const struct recipe *r)
{
	json_t *o = json_pack("{s:i, s:i, s:f, s:f, s:f, s:o, s:{s:i, s:b, s:i}}", "epochs",
		r->epochs, "batch", r->batch, "lr", r->lr, "momentum", r->momentum, "l2", r->l2,
		"schedule", schedule_json(&r->schedule), "augment", "shift", r->augment.shift,
		"flip", r->augment.flip, "cutout", r->augment.cut);

	if (r->optimiser != OPTIMISER_SGD)
		json_object_set_new(o, "optimiser", json_string(optimisers[r->optimiser].name));
	if (r->smoothing > 0)
		json_object_set_new(o, "label_smoothing", json_real(r->smoothing));
	if (r->validation != RECIPE_VALIDATION_UNSAID)
		json_object_set_new(o, "validation", json_integer(r->validation));
	return o;
}
