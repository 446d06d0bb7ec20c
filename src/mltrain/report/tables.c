#include "report/html.h"
#include "report/report.h"

#include <math.h>

#define EPOCHS_MAX  1000 /* rows */
#define FACTS_TITLE "What was given"

static double best_validation(const struct run *r)
{
	double best = NAN;

	for (size_t i = 0; i < r->validation_error.n; i++)
		best = fmin(best,
			r->validation_error.y[i]); /* fmin() of NAN and a number is the number */
	return best;
}

char *tables_outcome(const struct run *r)
{
	char step[HTML_NUMBER];

	html_count(r->step, step);
	switch (r->outcome) {
	case RUN_ENDED:
		return xasprintf("reached its end at step %s", step);
	case RUN_INTERRUPTED:
		return xasprintf("was interrupted by a signal at step %s", step);
	case RUN_FAILED:
		if (!(r->step >= 1)) /* NAN if nothing was trained */
			return xasprintf(
				"failed before its first step: %s", r->error ? r->error : "");
		return xasprintf("failed after step %s: %s", step, r->error ? r->error : "");
	default:
		return xasprintf("goes on, or was killed; the log ends at step %s", step);
	}
}

static void tile(FILE *f, const char *name, const char *value, const char *more, const char *class)
{
	html_format(f, "<div class=\"tile %s\"><dt>%s</dt><dd>%s", class, name, value);
	if (more)
		html_format(f, " <small>%s</small>", more);
	fputs("</dd></div>\n", f);
}

void tables_result(FILE *f, const struct run *r)
{
	char a[HTML_NUMBER], b[HTML_NUMBER];
	auto_free char *accuracy = NULL, *best = NULL, *steps = NULL, *total = NULL;

	fputs("<dl class=\"tiles\">\n", f);
	if (!isnan(r->test_error)) {
		accuracy = xasprintf("accuracy %s", html_share(1 - r->test_error, b));
		tile(f, "Test error", html_share(r->test_error, a), accuracy, "main");
	}
	if (r->validation_error.n) {
		best = xasprintf("best %s", html_share(best_validation(r), b));
		tile(f, "Validation error",
			html_share(r->validation_error.y[r->validation_error.n - 1], a), best, "");
	}
	tile(f, "Speed", html_count(r->images_per_second, a), "images/s", "");
	total = xasprintf("of %s in all", html_duration(r->total_s, b));
	tile(f, "Training", html_duration(r->train_s, a), total, "");
	steps = xasprintf("of %s", html_count(r->steps, b));
	tile(f, "Steps", html_count(r->step, a), steps, "");
	fputs("</dl>\n", f);
}

/* --- several runs ---------------------------------------------------------------------- */

/* Which run the others are compared with: the first that was trained at all. */
static size_t base_of(const struct runs *runs)
{
	size_t i = 0;

	while (i < runs->n && !(runs->v[i].step >= 1))
		i++;
	return i < runs->n ? i : 0;
}

/* Write the results, each compared with those of the base where that says something. */
static void write_results(FILE *f, const struct runs *runs)
{
	double test[RUNS_MAX] = { 0 }, best[RUNS_MAX] = { 0 }, speed[RUNS_MAX] = { 0 };
	double train[RUNS_MAX] = { 0 }, total[RUNS_MAX] = { 0 };
	size_t n = runs->n, base = base_of(runs);

	for (size_t i = 0; i < n; i++) {
		const struct run *r = &runs->v[i];

		test[i] = r->test_error;
		best[i] = best_validation(r);
		speed[i] = r->images_per_second;
		train[i] = r->train_s;
		total[i] = r->total_s;
	}
	html_row(f, "test error", html_share, test, n, n);
	html_row(f, "best validation error", html_share, best, n, n);
	html_row(f, "images/s", html_count, speed, n, base);
	html_row(f, "training time", html_duration, train, n, base);
	html_row(f, "time in all", html_duration, total, n, base);
	fputs("<tr><th scope=\"row\">steps</th>", f);
	for (size_t i = 0; i < n; i++) {
		char a[HTML_NUMBER], b[HTML_NUMBER];

		html_format(f, "<td class=\"num\">%s <small>of %s</small></td>",
			html_count(runs->v[i].step, a), html_count(runs->v[i].steps, b));
	}
	fputs("</tr>\n", f);
}

static void head(FILE *f, const struct runs *runs)
{
	fputs("<thead><tr><th scope=\"col\"></th>", f);
	for (size_t i = 0; i < runs->n; i++)
		html_column(f, i, runs->v[i].label);
	fputs("</tr></thead>\n", f);
}

/* Collect the keys of all runs in the order of their appearance. */
static void keys_of(const struct runs *runs, struct strv *keys)
{
	for (size_t i = 0; i < runs->n; i++)
		for (size_t k = 0; k < runs->v[i].n_facts; k++)
			if (!strv_has(keys, runs->v[i].facts[k].key))
				strv_add(keys, runs->v[i].facts[k].key);
}

static int differs(const struct runs *runs, const char *key)
{
	const char *first = run_fact(&runs->v[0], key);

	for (size_t i = 1; i < runs->n; i++) {
		const char *other = run_fact(&runs->v[i], key);

		if (!first != !other || (first && strcmp(first, other) != 0))
			return 1;
	}
	return 0;
}

/* Format a key for people: "train_images" is "train images". */
static void write_key(FILE *f, const char *key)
{
	auto_free char *words = xstrdup(key);

	for (char *p = words; *p; p++)
		if (*p == '_')
			*p = ' ';
	html_text(f, words);
}

static void fact_row(FILE *f, const struct runs *runs, const char *key)
{
	fputs("<tr><th scope=\"row\">", f);
	write_key(f, key);
	fputs("</th>", f);
	for (size_t i = 0; i < runs->n; i++) {
		const char *v = run_fact(&runs->v[i], key);

		html_format(f, "<td>%s</td>", v ? v : "–");
	}
	fputs("</tr>\n", f);
}

void tables_differences(FILE *f, const struct runs *runs)
{
	auto_strv struct strv keys = STRV_INIT;

	html_table_begin(f, "diff", "Side by side", "differences");
	head(f, runs);
	fputs("<tbody>\n", f);
	write_results(f, runs);
	fputs("</tbody><tbody>\n", f);
	keys_of(runs, &keys);
	for (size_t i = 0; i < keys.n; i++)
		if (strcmp(keys.v[i], "time") != 0 && differs(runs, keys.v[i]))
			fact_row(f, runs, keys.v[i]);
	fputs("</tbody></table></div>\n", f);
	html_format(f, "<p class=\"about\">× and ÷ compare with %s, the first%s.</p>\n<ul>\n",
		runs->v[base_of(runs)].label, base_of(runs) ? " that was trained" : "");
	for (size_t i = 0; i < runs->n; i++) {
		auto_free char *outcome = tables_outcome(&runs->v[i]);

		html_format(f, "<li><b>%s</b> %s.</li>\n", runs->v[i].label, outcome);
	}
	fputs("</ul></section>\n", f);
}

/* --- timings ------------------------------------------------------------------------------ */

static void timing_row(FILE *f, const struct run *r)
{
	const struct {
		const char *name;
		double s;
	} parts[] = { { "load", r->load_s }, { "train", r->train_s }, { "evaluate", r->evaluate_s },
		{ "checkpoint", r->checkpoint_s } };
	double rest = r->total_s, sum = 0;
	char text[HTML_NUMBER];

	html_format(f,
		"<tr><th scope=\"row\">%s</th><td class=\"bar\"><div class=\"stack\" "
		"aria-hidden=\"true\">",
		r->label);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		sum += isnan(parts[i].s) ? 0 : parts[i].s;
	rest = isnan(rest) || rest < sum ? 0 : rest - sum;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i].s > 0)
			fprintf(f, "<span class=\"part%zu\" style=\"flex-grow:%.6g\"></span>", i,
				parts[i].s / (sum + rest));
	if (rest > 0)
		fprintf(f, "<span class=\"part4\" style=\"flex-grow:%.6g\"></span>",
			rest / (sum + rest));
	fputs("</div></td>", f);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		html_format(f, "<td class=\"num\">%s</td>", html_duration(parts[i].s, text));
	html_format(f, "<td class=\"num\">%s</td>", html_duration(rest, text));
	html_format(f, "<td class=\"num\"><b>%s</b></td></tr>\n", html_duration(r->total_s, text));
}

void tables_timings(FILE *f, const struct runs *runs)
{
	static const char *const names[] = { "loading", "training", "evaluating", "checkpoints",
		"the rest" };

	html_table_begin(f, "time", "Where the time went", "timings");
	fputs("<thead><tr><th scope=\"col\">run</th><td></td>", f);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		fprintf(f,
			"<th scope=\"col\" class=\"num\"><span class=\"dot part%zu\"></span>%s</th>",
			i, names[i]);
	fputs("<th scope=\"col\" class=\"num\">all</th></tr></thead><tbody>\n", f);
	for (size_t i = 0; i < runs->n; i++)
		timing_row(f, &runs->v[i]);
	fputs("</tbody></table></div></section>\n", f);
}

/* --- epochs --------------------------------------------------------------------------------- */

/* Return the value of a curve at a step or just before it. */
static double value_at(const struct curve *c, double step)
{
	size_t lo = 0, hi = c->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c->step[mid] <= step)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? c->y[lo - 1] : NAN;
}

static void number_text(double v, char buf[32])
{
	if (isnan(v))
		strcpy(buf, "–");
	else
		snprintf(buf, 32, "%.4g", v);
}

static void run_epochs(FILE *f, const struct run *r)
{
	const struct curve *v = &r->validation_error;

	html_format(f,
		"<table><caption>%s</caption><thead><tr><th scope=\"col\" class=\"num\">step"
		"</th><th scope=\"col\" class=\"num\">time</th><th scope=\"col\" "
		"class=\"num\">loss</th><th scope=\"col\" class=\"num\">learning rate</th>"
		"<th scope=\"col\" class=\"num\">validation error</th></tr></thead><tbody>\n",
		r->label);
	for (size_t i = 0; i < v->n && i < EPOCHS_MAX; i++) {
		char step[HTML_NUMBER], time[HTML_NUMBER], loss[32], lr[32], error[HTML_NUMBER];

		number_text(value_at(&r->loss, v->step[i]), loss);
		number_text(value_at(&r->lr, v->step[i]), lr);
		html_format(f,
			"<tr><td class=\"num\">%s</td><td class=\"num\">%s</td>"
			"<td class=\"num\">%s</td><td class=\"num\">%s</td>"
			"<td class=\"num\">%s</td></tr>\n",
			html_count(v->step[i], step), html_duration(v->time[i], time), loss, lr,
			html_share(v->y[i], error));
	}
	fputs("</tbody></table>\n", f);
	if (v->n > EPOCHS_MAX)
		fprintf(f, "<p class=\"about\">The first %d of %zu.</p>\n", EPOCHS_MAX, v->n);
}

void tables_epochs(FILE *f, const struct runs *runs)
{
	size_t n = 0;

	for (size_t i = 0; i < runs->n; i++)
		n += runs->v[i].validation_error.n;
	if (!n)
		return;
	fputs("<section aria-labelledby=\"h-epochs\"><h2 id=\"h-epochs\">Validations</h2>\n"
	      "<details><summary>As numbers</summary><div class=\"scroll side\" tabindex=\"0\" "
	      "role=\"region\" aria-labelledby=\"h-epochs\">\n",
		f);
	for (size_t i = 0; i < runs->n; i++)
		run_epochs(f, &runs->v[i]);
	fputs("</div></details></section>\n", f);
}

static void run_facts(FILE *f, const struct run *r)
{
	fputs("<section aria-labelledby=\"h-facts\"><h2 id=\"h-facts\">" FACTS_TITLE "</h2>\n"
	      "<dl id=\"facts\">\n",
		f);
	for (size_t i = 0; i < r->n_facts; i++) {
		fputs("<div><dt>", f);
		write_key(f, r->facts[i].key);
		html_format(f, "</dt><dd>%s</dd></div>\n", r->facts[i].value);
	}
	fputs("</dl></section>\n", f);
}

void tables_facts(FILE *f, const struct runs *runs)
{
	auto_strv struct strv keys = STRV_INIT;

	if (runs->n == 1) {
		run_facts(f, &runs->v[0]);
		return;
	}
	html_table_begin(f, "facts", FACTS_TITLE, "facts");
	head(f, runs);
	fputs("<tbody>\n", f);
	keys_of(runs, &keys);
	for (size_t i = 0; i < keys.n; i++)
		fact_row(f, runs, keys.v[i]);
	fputs("</tbody></table></div></section>\n", f);
}
