#include "unit.h"
#include "base/memory.h"
#include "base/record.h"
#include "base/strv.h"

enum colour { NO_COLOUR, RED, GREEN };
static const char *const colours[] = { NULL, "red", "green" };

struct part {
	char *name;
	int64_t weight;
};

struct thing {
	char *name;
	struct strv tags;
	int small, flag;
	unsigned char tiny;
	uint64_t large;
	enum colour colour;
	struct part first;
	struct part *parts;
	size_t n_parts;
	int odd; /* has a rule */
};

static int check_odd(const struct record_reader *r, void *member)
{
	return *(int *)member % 2 ? 0 : record_wrong(r, "%d is even", *(int *)member);
}

static const struct part heavy = { NULL, 100 };

static const struct record_row part_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct part, name), .flags = RECORD_MUST },
	{ "weight", RECORD_NUMBER, RECORD_AT(struct part, weight) },
	{ NULL },
};

static const struct record_row rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct thing, name), .flags = RECORD_MUST },
	{ "tags", RECORD_TEXTS, RECORD_AT(struct thing, tags) },
	{ "small", RECORD_NUMBER, RECORD_AT(struct thing, small), .flags = RECORD_NULL,
		.none = -1 },
	{ "flag", RECORD_FLAG, RECORD_AT(struct thing, flag) },
	{ "tiny", RECORD_NUMBER, RECORD_AT(struct thing, tiny), .max = 255 },
	{ "large", RECORD_NUMBER, RECORD_AT(struct thing, large) },
	{ "colour", RECORD_WORD, RECORD_AT(struct thing, colour), RECORD_WORDS(colours) },
	{ "first", RECORD_STRUCT, RECORD_AT(struct thing, first), .flags = RECORD_NULL,
		.rows = part_rows },
	{ "parts", RECORD_LIST, RECORD_ITEMS(struct thing, parts, n_parts, part_rows),
		.init = &heavy },
	{ "odd", RECORD_NUMBER, RECORD_AT(struct thing, odd), .rule = check_odd },
	{ NULL },
};

static const char whole[] =
	"{\"name\": \"a\", \"tags\": [\"x\", \"\"], \"small\": null, \"flag\": true, \"tiny\": 255,"
	" \"large\": 9223372036854775807, \"colour\": \"green\", \"first\": null,"
	" \"parts\": [{\"name\": \"p\", \"weight\": 0}, {\"name\": \"q\", \"weight\": 7}], \"odd\": 3}";

/* Read it in this manner, and expect these words of an error, or none. */
static void reads(const char *text, int manner, const char *words, struct thing *ret)
{
	struct mlr_error err = MLR_ERROR_INIT;
	const struct record_reader r = { manner, NULL, &err };
	json_t *o = json_loads(text, JSON_ALLOW_NUL, NULL);

	assert_non_null(o);
	*ret = (struct thing){ .small = 5, .large = 6, .odd = 1 };
	assert_int_equal(record_read(&r, rows, o, ret), words ? -EPROTO : 0);
	if (words && strcmp(err.text, words) != 0)
		fail_msg("'%s' is not '%s'", err.text, words);
	json_decref(o);
}

static void what_is_written_is_what_was_read(void **state)
{
	struct thing t;
	json_t *again, *o = json_loads(whole, 0, NULL);

	reads(whole, RECORD_ALL | RECORD_ONLY, NULL, &t);
	assert_int_equal(t.small, -1);
	assert_int_equal(t.tiny, 255);
	assert_true(t.large == INT64_MAX);
	assert_int_equal(t.colour, GREEN);
	assert_null(t.first.name);
	assert_int_equal(t.n_parts, 2);
	assert_int_equal(t.parts[0].weight, 0);
	again = record_write(rows, &t);
	assert_true(json_equal(o, again));
	record_done(rows, &t);
	assert_null(t.name);
	assert_int_equal(t.n_parts, 0);
	json_decref(o);
	json_decref(again);
}

static void what_is_missing_stays_as_it_is(void **state)
{
	struct thing t;

	reads("{\"name\": \"a\", \"parts\": [{\"name\": \"p\"}], \"more\": 1, \"tags\": null}", 0,
		NULL, &t);
	assert_int_equal(t.small, 5);
	assert_int_equal(t.large, 6);
	assert_int_equal(t.parts[0].weight, 100);
	record_done(rows, &t);
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text;
		int manner;
		const char *words;
	} cases[] = {
		{ "[]", 0, "expected an object, found a list" },
		{ "{}", 0, "name: missing" },
		{ "{\"name\": \"\"}", 0, "name: empty" },
		{ "{\"name\": null}", 0, "name: empty" },
		{ "{\"name\": 1}", 0, "name: expected a string, found a number" },
		{ "{\"name\": \"a\\u0000b\"}", 0, "name: a string with a zero byte" },
		{ "{\"name\": \"a\", \"tags\": \"x\"}", 0,
			"tags: expected a list, found a string" },
		{ "{\"name\": \"a\", \"tags\": [\"x\", []]}", 0,
			"tags: [1]: expected a string, found a list" },
		{ "{\"name\": \"a\", \"small\": -1}", 0,
			"small: -1 is not between 0 and 2147483647" },
		{ "{\"name\": \"a\", \"tiny\": 256}", 0, "tiny: 256 is not between 0 and 255" },
		{ "{\"name\": \"a\", \"tiny\": 0.5}", 0,
			"tiny: expected a whole number, found a fractional number" },
		{ "{\"name\": \"a\", \"flag\": 1}", 0,
			"flag: expected true or false, found a number" },
		{ "{\"name\": \"a\", \"colour\": \"blue\"}", 0, "colour: unknown word 'blue'" },
		{ "{\"name\": \"a\", \"first\": {}}", 0, "first: name: missing" },
		{ "{\"name\": \"a\", \"parts\": [{\"name\": \"p\"}, {}]}", 0,
			"parts: [1]: name: missing" },
		{ "{\"name\": \"a\", \"odd\": 4}", 0, "odd: 4 is even" },
		{ "{\"name\": \"a\", \"more\": 1}", RECORD_ONLY, "unknown key 'more'" },
		{ "{\"name\": \"a\", \"Name\": \"b\"}", RECORD_ONLY,
			"the key 'name' appears twice" },
		{ "{\"name\": \"a\"}", RECORD_ALL, "tags: missing" },
		{ "{\"name\": \"a\", \"tags\": null}", RECORD_ALL,
			"tags: expected a value, found null" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct thing t;

		reads(cases[i].text, cases[i].manner, cases[i].words, &t);
		record_done(rows, &t);
	}
}

static void yaml_needs_no_quotes(void **state)
{
	struct thing t;

	reads("{\"name\": 1.5, \"tags\": [true, 7, null]}", RECORD_AS_YAML, NULL, &t);
	assert_string_equal(t.name, "1.5");
	assert_string_equal(t.tags.v[0], "true");
	assert_string_equal(t.tags.v[1], "7");
	assert_string_equal(t.tags.v[2], "");
	record_done(rows, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_what_was_read),
		cmocka_unit_test(what_is_missing_stays_as_it_is),
		cmocka_unit_test(what_is_wrong_is_named_with_its_place),
		cmocka_unit_test(yaml_needs_no_quotes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
