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
	float share;
	double loss;
	char word[4];
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
	{ "share", RECORD_REAL, RECORD_AT(struct thing, share), .most = 1 },
	{ "loss", RECORD_REAL, RECORD_AT(struct thing, loss), .flags = RECORD_NULL, .none = -1 },
	{ "word", RECORD_CHARS, RECORD_AT(struct thing, word), .flags = RECORD_SPARE },
	{ NULL },
};

static const char whole[] =
	"{\"name\": \"a\", \"tags\": [\"x\", \"\"], \"small\": null, \"flag\": true, \"tiny\": 255,"
	" \"large\": 9223372036854775807, \"colour\": \"green\", \"first\": null,"
	" \"parts\": [{\"name\": \"p\", \"weight\": 0}, {\"name\": \"q\", \"weight\": 7}], \"odd\": 3,"
	" \"share\": 0.1, \"loss\": null, \"word\": \"abc\"}";

/* Read it in this manner, and expect these words of an error, or none. */
static void reads(const char *text, int manner, const char *words, struct thing *ret)
{
	struct mlr_error err = MLR_ERROR_INIT;
	const struct record_reader r = { .manner = manner, .err = &err };
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
	assert_string_equal(t.word, "abc");
	assert_true(t.loss < 0);
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
		{ "[]", 0, "expected an object, found []" },
		{ "{}", 0, "name: missing" },
		{ "{\"name\": \"\"}", 0, "name: empty" },
		{ "{\"name\": null}", 0, "name: empty" },
		{ "{\"name\": 1}", 0, "name: expected a string, found 1" },
		{ "{\"name\": \"a\\u0000b\"}", 0, "name: a string with a zero byte" },
		{ "{\"name\": \"a\", \"tags\": \"x\"}", 0, "tags: expected a list, found \"x\"" },
		{ "{\"name\": \"a\", \"tags\": [\"x\", []]}", 0,
			"tags: [1]: expected a string, found []" },
		{ "{\"name\": \"a\", \"small\": -1}", 0,
			"small: expected a whole number from 0 to 2147483647, found -1" },
		{ "{\"name\": \"a\", \"tiny\": 256}", 0,
			"tiny: expected a whole number from 0 to 255, found 256" },
		{ "{\"name\": \"a\", \"tiny\": 0.5}", 0,
			"tiny: expected a whole number from 0 to 255, found 0.5" },
		{ "{\"name\": \"a\", \"flag\": 1}", 0, "flag: expected true or false, found 1" },
		{ "{\"name\": \"a\", \"colour\": \"blue\"}", 0,
			"colour: expected one of null, red, green, found \"blue\"" },
		{ "{\"name\": \"a\", \"first\": {}}", 0, "first: name: missing" },
		{ "{\"name\": \"a\", \"parts\": [{\"name\": \"p\"}, {}]}", 0,
			"parts: [1]: name: missing" },
		{ "{\"name\": \"a\", \"odd\": 4}", 0, "odd: 4 is even" },
		{ "{\"name\": \"a\", \"more\": 1}", RECORD_ONLY, "unknown key 'more'" },
		{ "{\"name\": \"a\", \"Name\": \"b\"}", RECORD_ONLY | RECORD_ANY_CASE,
			"the key 'name' appears twice" },
		{ "{\"name\": \"a\", \"Name\": \"b\"}", RECORD_ONLY,
			"unknown key 'Name'\nhint: is 'name' meant?" },
		{ "{\"name\": \"a\", \"share\": 1.25}", 0,
			"share: expected a number from 0 to 1, found 1.25" },
		{ "{\"name\": \"a\", \"word\": \"long\"}", 0,
			"word: expected a text of 1 to 3 letters, found \"long\"" },
		{ "{\"name\": \"a\", \"word\": \"\\u009b\"}", 0,
			"word: expected a text of 1 to 3 letters, found \"\302\233\"" },
		{ "{\"name\": \"a\\u0007\"}", RECORD_PRINTABLE,
			"name: contains control characters" },
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

static void place(const struct record_reader *r, const json_t *in, const char *key, size_t at)
{
	mlr_wrap(r->err, "%s%zu", key ? key : "#", at);
}

static void texts_serve_as_numbers_and_places_are_the_readers(void **state)
{
	static const struct record_row list_rows[] = {
		{ "tags", RECORD_TEXTS, RECORD_AT(struct thing, tags), .flags = RECORD_OR_ONE },
		{ "small", RECORD_NUMBER, RECORD_AT(struct thing, small), .max = 9 },
		{ "flag", RECORD_FLAG, RECORD_AT(struct thing, flag) },
		{ "colour", RECORD_WORD, RECORD_AT(struct thing, colour), RECORD_WORDS(colours) },
		{ "old", RECORD_OWN, .refusal = "use new" },
		{ "spare", RECORD_OWN },
		{ NULL },
	};
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "{'tags': 'one', 'small': '7', 'flag': 'true', 'colour': 'red', 'spare': 1, 'x-a': 1}",
			NULL },
		{ "{'tags': ['a', 1]}", "tags0: #1: expected a string, found 1" },
		{ "{'small': '10'}", "small0: expected a whole number from 0 to 9, found 10" },
		{ "{'flag': 'yes'}", "flag0: expected true or false, found \"yes\"" },
		{ "{'small': null}", "small0: expected a whole number from 0 to 9, found null" },
		{ "{'old': '1'}", "old0: this key is not supported\nhint: use new" },
		{ "{'smal': '1'}", "smal0: this key is not supported\nhint: is 'small' meant?" },
		{ "[]", "expected a mapping, found []" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		const struct record_reader r = { .manner = RECORD_ONLY | RECORD_OF_TEXTS |
				RECORD_NO_NULL | RECORD_X_KEYS,
			.err = &err,
			.code = EINVAL,
			.place = place };
		struct thing t = { .small = 1 };
		char *text = xstrdup(cases[i].text);
		json_t *o;

		for (char *s = text; *s; s++)
			*s = *s == '\'' ? '"' : *s;
		o = json_loads(text, 0, NULL);
		assert_int_equal(record_read(&r, list_rows, o, &t), cases[i].words ? -EINVAL : 0);
		assert_string_equal(err.text, cases[i].words ? cases[i].words : "");
		if (!cases[i].words)
			assert_true(t.small == 7 && t.flag && t.colour == RED && t.tags.n == 1);
		record_done(list_rows, &t);
		json_decref(o);
		free(text);
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
		cmocka_unit_test(texts_serve_as_numbers_and_places_are_the_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
