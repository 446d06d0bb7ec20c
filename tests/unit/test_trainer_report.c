#include "trainer_test.h"

#include "report/html.h"
#include "report/report.h"
#include "report/runs.h"

#define RUN(net)                            \
	"{\"event\":\"run\",\"net\":\"" net \
	"\",\"batch\":64,\"steps\":9,\"step\":0,\"seconds\":0.5}\n"

static struct runs parse(const char *text)
{
	struct runs runs = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (runs_parse(&runs, text, strlen(text), "dir/log.jsonl", &err) < 0)
		fail_msg("%s", err.text);
	return runs;
}

static void assert_refused(const char *text, int code, const char *says)
{
	struct runs runs = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(runs_parse(&runs, text, strlen(text), "log", &err), -code);
	if (!strstr(err.text, says))
		fail_msg("%s", err.text);
	runs_done(&runs);
}

/* --- logs ----------------------------------------------------------------------------- */

static void a_log_gives_its_runs_one_after_the_other(void **state)
{
	struct runs r = parse(RUN(
		"a") "{\"event\":\"step\",\"step\":1,\"loss\":3.5,\"train_seconds\":1,\"seconds\":2}\n"
		     "{\"event\":\"step\",\"step\":3,\"loss\":2.5,\"train_seconds\":2,\"seconds\":3}\n"
		     "{\"event\":\"epoch\",\"step\":3,\"validation_error\":0.25,\"seconds\":4}\n"
		     "{\"event\":\"end\",\"step\":3,\"test_error\":0.125,\"seconds\":5}\n" RUN(
			     "b"));

	assert_int_equal(r.n, 2);
	assert_string_equal(r.v[0].label, "log");
	assert_string_equal(r.v[1].label, "log (2)");
	assert_string_equal(run_fact(&r.v[1], "net"), "b");
	assert_int_equal(r.v[0].loss.n, 2);
	assert_true(r.v[0].loss.y[1] == 2.5 && r.v[0].loss.time[1] == 3);
	assert_true(r.v[0].rate.n == 1 && r.v[0].rate.y[0] == 2 * 64);
	assert_true(r.v[0].test_error == 0.125 && r.v[0].load_s == 0.5 && r.v[0].total_s == 5);
	assert_int_equal(r.v[0].outcome, RUN_ENDED);
	assert_int_equal(r.v[1].outcome, RUN_CUT);
	runs_done(&r);
}

static void a_resumed_run_replaces_what_the_killed_one_told_of_later_steps(void **state)
{
	struct runs r =
		parse(RUN("a") "{\"event\":\"step\",\"step\":10,\"loss\":3,\"seconds\":2}\n"
			       "{\"event\":\"step\",\"step\":20,\"loss\":9,\"seconds\":3}\n"
			       "{\"event\":\"run\",\"net\":\"a\",\"step\":10,\"seconds\":0.5}\n"
			       "{\"event\":\"step\",\"step\":20,\"loss\":2,\"seconds\":1.5}\n");

	assert_int_equal(r.n, 1);
	assert_int_equal(r.v[0].loss.n, 2);
	assert_true(r.v[0].loss.y[1] == 2 && r.v[0].loss.time[1] == 3 + 1.5);
	assert_true(r.v[0].total_s == 4.5);
	runs_done(&r);
}

static void what_is_damaged_is_named_and_skipped(void **state)
{
	struct runs r = parse(RUN("a") "{\"event\":\"step\",\"st\n"
				       "[1]\n"
				       "{\"no\":\"event\"}\n"
				       "{\"event\":\"from the future\",\"step\":[]}\n"
				       "{\"event\":\"step\",\"step\":1,\"loss\":1}\n"
				       "{\"event\":\"step\",\"step\":2,\"lo");

	assert_int_equal(r.v[0].loss.n, 1);
	assert_int_equal(r.n_notes, 4);
	assert_string_equal(r.notes[0], "'dir/log.jsonl' line 2: damaged, no JSON object, skipped");
	assert_string_equal(r.notes[1], "'dir/log.jsonl' line 3: damaged, no JSON object, skipped");
	assert_string_equal(r.notes[2], "'dir/log.jsonl' line 4: not a record of a run, skipped");
	assert_string_equal(r.notes[3], "'dir/log.jsonl' line 7: cut off in the middle, skipped");
	runs_done(&r);
}

static void what_a_run_was_given_is_told_flat(void **state)
{
	struct runs r = parse(
		"{\"event\":\"run\",\"net\":\"a\",\"none\":null,\"recipe\":{\"lr\":0.01,\"schedule\":"
		"{\"kind\":\"steps\",\"at\":[3,5]}}}\n");

	assert_int_equal(r.v[0].n_facts, 3);
	assert_string_equal(run_fact(&r.v[0], "lr"), "0.01");
	assert_string_equal(run_fact(&r.v[0], "schedule"), "kind steps, at [3, 5]");
	assert_null(run_fact(&r.v[0], "none"));
	runs_done(&r);
}

static void numbers_that_cannot_be_drawn_are_left_out(void **state)
{
	struct runs r =
		parse(RUN("a") "{\"event\":\"step\",\"step\":1,\"loss\":1e300,\"lr\":-1}\n"
			       "{\"event\":\"step\",\"step\":-5,\"loss\":1}\n"
			       "{\"event\":\"step\",\"step\":\"7\",\"loss\":1}\n"
			       "{\"event\":\"step\",\"step\":5,\"loss\":null}\n"
			       "{\"event\":\"step\",\"step\":6,\"loss\":1,\"seconds\":9}\n"
			       "{\"event\":\"step\",\"step\":4,\"loss\":1,\"seconds\":10}\n"
			       "{\"event\":\"step\",\"step\":7,\"loss\":1,\"seconds\":8}\n");

	assert_int_equal(r.v[0].loss.n, 2);
	assert_true(r.v[0].loss.step[0] == 6 && r.v[0].loss.step[1] == 7);
	assert_true(r.v[0].loss.time[0] == 9 && r.v[0].loss.time[1] == 9);
	assert_int_equal(r.v[0].lr.n, 0);
	runs_done(&r);
}

static void a_file_without_a_run_and_too_many_runs_are_refused(void **state)
{
	auto_free char *many = xcalloc(RUNS_MAX + 1, sizeof(RUN("a")));

	assert_refused("", EPROTO, "'log' has no record of a run");
	assert_refused("\x89PNG\r\n\x1a\n", EPROTO, "mltrain train --log FILE");
	for (int i = 0; i <= RUNS_MAX; i++)
		strcat(many, RUN("a"));
	assert_refused(many, E2BIG, "more than 16 runs");
}

/* --- tests ------------------------------------------------------------------------------- */

static int read_test(const char *text, struct test *t)
{
	json_t *record = json_loads(text, 0, NULL);
	int r;

	assert_non_null(record);
	r = run_test_read(record, t);
	json_decref(record);
	return r;
}

static void a_confusion_that_does_not_fit_together_is_refused(void **state)
{
	struct test t = { 0 };

	assert_int_equal(read_test("{}", &t), -EPROTO);
	assert_int_equal(read_test("{\"confusion\":[]}", &t), -EPROTO);
	assert_int_equal(read_test("{\"confusion\":[[1,2]]}", &t), -EPROTO);
	assert_int_equal(read_test("{\"confusion\":[[1,2],[3]]}", &t), -EPROTO);
	assert_int_equal(read_test("{\"confusion\":[[1,-2],[3,4]]}", &t), -EPROTO);
	assert_int_equal(read_test("{\"confusion\":[[1,2.5],[3,4]]}", &t), -EPROTO);
	assert_null(t.confusion);
	assert_int_equal(
		read_test("{\"confusion\":[[1,2],[3,4]],\"names\":[\"a\"],\"mistakes\":["
			  "{\"index\":1,\"label\":0,\"guess\":1,\"probability\":0.5,\"png\":\"x\"},"
			  "{\"index\":1,\"label\":0,\"guess\":2},{\"label\":-1,\"guess\":0},7]}",
			&t),
		0);
	assert_int_equal(t.confusion[2], 3);
	assert_string_equal(t.names[0], "a");
	assert_string_equal(t.names[1], "1");
	assert_int_equal(t.n_mistakes, 1);
	assert_null(t.mistakes[0].png);
	run_test_done(&t);
}

static void only_png_in_base64_is_a_picture(void **state)
{
	assert_true(run_test_is_png("iVBORw0KGgoAAAAN"));
	assert_true(run_test_is_png("iVBORw0KGgoAAAA="));
	assert_false(run_test_is_png(""));
	assert_false(run_test_is_png("iVBORw0KGgoAAAANA"));
	assert_false(run_test_is_png("PHN2Zz4="));
	assert_false(run_test_is_png("iVBORw0KGgo\" onload=\"x"));
	assert_false(run_test_is_png("iVBORw0KGgoA===="));
}

/* --- drawing --------------------------------------------------------------------------------- */

static void ticks_are_round_and_within(void **state)
{
	double t[16];

	assert_int_equal(chart_ticks(0, 4000, 0, t, 16), 5);
	assert_true(t[0] == 0 && t[4] == 4000);
	assert_int_equal(chart_ticks(0.013, 0.027, 0, t, 16), 7);
	assert_true(fabs(t[0] - 0.014) < 1e-9 && fabs(t[6] - 0.026) < 1e-9);
	assert_int_equal(chart_ticks(0.15, 6, 1, t, 16), 5); /* 0.2 0.5 1 2 5 */
	assert_true(fabs(t[0] - 0.2) < 1e-9 && t[4] == 5);
	assert_int_equal(chart_ticks(1, 1e30, 1, t, 16), 8);
	assert_int_equal(chart_ticks(5, 5, 0, t, 16), 0);
	assert_true(chart_ticks(1e30, 1e30 * (1 + 1e-15), 0, t, 16) <= 16);
}

static void smoothing_has_no_bias_at_its_beginning(void **state)
{
	const double same[] = { 5, 5, 5, 5 }, step[] = { 0, 0, 9, 9 };
	double y[4];

	curve_smooth(same, 4, y);
	for (int i = 0; i < 4; i++)
		assert_true(fabs(y[i] - 5) < 1e-12);
	curve_smooth(step, 4, y);
	assert_true(y[1] == 0 && y[2] > 3 && y[3] > y[2] && y[3] < 9);
}

static char *draw(const double *x, const double *y, size_t n, int log_choice)
{
	struct chart c = { .id = "c",
		.title = "T",
		.x_name = "x",
		.unit = "",
		.scale = 1,
		.log_choice = log_choice };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	chart_add(&c, &(struct line){ "l", NULL, 0, LINE_STRONG, x, y, n });
	chart_write(f, &c);
	fclose(f);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

static void a_line_of_one_point_is_a_point(void **state)
{
	const double x[] = { 1, 2 }, y[] = { 3, 4 };
	auto_free char *one = draw(x, y, 1, 0), *two = draw(x, y, 2, 0);

	assert_int_equal(count(one, "<circle"), 1);
	assert_int_equal(count(two, "<circle"), 0);
}

static void a_line_of_many_points_is_thinned_but_keeps_its_spikes(void **state)
{
	const size_t n = 100000;
	auto_free double *x = xcalloc(n, sizeof(*x)), *y = xcalloc(n, sizeof(*y));
	auto_free char *whole = NULL, *thin = NULL;

	for (size_t i = 0; i < n; i++) {
		x[i] = (double)i;
		y[i] = 1 + 0.1 * (double)(i % 7);
	}
	y[54321] = 77.5;
	whole = draw(x, y, 500, 0);
	assert_non_null(strstr(whole, "data-points=\"500\""));
	thin = draw(x, y, n, 0);
	assert_true(strstr(thin, "data-points=\"1999\"") || strstr(thin, "data-points=\"2000\""));
	assert_non_null(strstr(thin, "77.5"));
}

/* Whatever the numbers, coordinates are numbers. */
static void no_numbers_make_a_drawing_without_numbers(void **state)
{
	static const double x[] = { 0, 1, 2 }, far[] = { 1e30, 1e30, 1e30 };
	static const double ys[][3] = { { 0, 0, 0 }, { 5, 5, 5 }, { -1, 0, 1 }, { 1e30, -1e30, 0 },
		{ 1e-320, 1e30, 0 }, { 1e-30, 1e-30, 1e-30 }, { -1, -2, -3 },
		{ 1e30, 1e30, 1e30 } };

	for (size_t i = 0; i < ARRAY_LEN(ys); i++) {
		for (int k = 0; k < 2; k++) {
			auto_free char *text = draw(k ? far : x, ys[i], 3, 1);

			assert_int_equal(count(text, "nan") + count(text, "inf"), 0);
			assert_true(count(text, "<path class=\"line") >= 1);
		}
	}
}

static void text_cannot_become_markup(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	html_format(f, "<b>%s</b>", "<i a='1' b=\"2\">&\x1b");
	fclose(f);
	assert_string_equal(
		text, "<b>&lt;i a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;\xef\xbf\xbd</b>");
	free(text);
}

static void durations_and_counts_read_well(void **state)
{
	char a[HTML_NUMBER], b[HTML_NUMBER];

	assert_string_equal(html_duration(0.824, a), "0.82 s");
	assert_string_equal(html_duration(12.34, a), "12.3 s");
	assert_string_equal(html_duration(200, a), "3 min 20 s");
	assert_string_equal(html_duration(7500, a), "2 h 05 min");
	assert_string_equal(html_duration(NAN, a), "–");
	assert_string_equal(html_count(999, b), "999");
	assert_string_equal(html_count(1663370, b),
		"1\xe2\x80\xaf"
		"663\xe2\x80\xaf"
		"370");
	assert_string_equal(html_percent(0.0902, 2, a), "9.02 %");
}

/* A page of a run of which nothing but its name is known is a page. */
static void a_page_can_be_made_of_next_to_nothing(void **state)
{
	struct runs r = parse("{\"event\":\"run\"}\n");
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	report_write(f, &r);
	fclose(f);
	assert_non_null(strstr(text, "<h1>log</h1>"));
	assert_non_null(strstr(text, "the log ends at step –"));
	assert_int_equal(count(text, "nan"), 0);
	free(text);
	runs_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_gives_its_runs_one_after_the_other),
		cmocka_unit_test(a_resumed_run_replaces_what_the_killed_one_told_of_later_steps),
		cmocka_unit_test(what_is_damaged_is_named_and_skipped),
		cmocka_unit_test(what_a_run_was_given_is_told_flat),
		cmocka_unit_test(numbers_that_cannot_be_drawn_are_left_out),
		cmocka_unit_test(a_file_without_a_run_and_too_many_runs_are_refused),
		cmocka_unit_test(a_confusion_that_does_not_fit_together_is_refused),
		cmocka_unit_test(only_png_in_base64_is_a_picture),
		cmocka_unit_test(ticks_are_round_and_within),
		cmocka_unit_test(smoothing_has_no_bias_at_its_beginning),
		cmocka_unit_test(a_line_of_one_point_is_a_point),
		cmocka_unit_test(a_line_of_many_points_is_thinned_but_keeps_its_spikes),
		cmocka_unit_test(no_numbers_make_a_drawing_without_numbers),
		cmocka_unit_test(text_cannot_become_markup),
		cmocka_unit_test(durations_and_counts_read_well),
		cmocka_unit_test(a_page_can_be_made_of_next_to_nothing),
	};

	return cmocka_run_group_tests_name("trainer report", tests, NULL, NULL);
}
