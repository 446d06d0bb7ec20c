#include "report/report.h"

#include "report/html.h"

#include <math.h>

/* --- the mistakes of a network: the confusion matrix, the worst mistakes ---------------------- */

/* Up to so many classes the matrix is a table with numbers and each class's error; up to so many, a
 * picture. */
#define MATRIX_NUMBERS_MAX 24
#define MATRIX_PICTURE_MAX 200
#define MATRIX_PAIRS       15 /* that are confused most */

static int64_t cell(const struct test *t, int label, int guess)
{
	return t->confusion[(size_t)label * (size_t)t->classes + (size_t)guess];
}

static int64_t images_of(const struct test *t, int label)
{
	int64_t n = 0;

	for (int i = 0; i < t->classes; i++)
		n += cell(t, label, i);
	return n;
}

static double error_of(const struct test *t, int label)
{
	int64_t n = images_of(t, label);

	return n ? 1 - (double)cell(t, label, label) / (double)n : NAN;
}

/* Map a share to an opacity at which small shares are visible. */
static double depth(double share)
{
	return sqrt(share);
}

static void write_cell(FILE *f, const struct test *t, int label, int guess)
{
	int64_t n = images_of(t, label), count = cell(t, label, guess);
	double d = n ? depth((double)count / (double)n) : 0;

	fprintf(f, "<td class=\"%s%s\" style=\"--d:%.3f\">", label == guess ? "right" : "wrong",
		d > 0.6 ? " deep" : "", d);
	if (count)
		fprintf(f, "%" PRId64, count);
	fputs("</td>", f);
}

static void write_numbers(FILE *f, const struct test *t)
{
	char error[HTML_NUMBER];

	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
	      "aria-label=\"confusion matrix\"><table class=\"matrix\"><thead><tr><th "
	      "class=\"corner\" scope=\"col\">labelled ↓ taken for →</th>",
		f);
	for (int i = 0; i < t->classes; i++)
		html_format(f, "<th scope=\"col\"><span>%s</span></th>", t->names[i]);
	fputs("<th scope=\"col\" class=\"num\">error</th></tr></thead><tbody>\n", f);
	for (int i = 0; i < t->classes; i++) {
		html_format(f, "<tr><th scope=\"row\">%s</th>", t->names[i]);
		for (int k = 0; k < t->classes; k++)
			write_cell(f, t, i, k);
		html_format(f, "<td class=\"num\">%s</td></tr>\n",
			html_percent(error_of(t, i), 1, error));
	}
	fputs("</tbody></table></div>\n", f);
}

static void write_picture(FILE *f, const struct test *t)
{
	fprintf(f,
		"<svg class=\"heat\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"confusion "
		"matrix of %d classes: rows are labels, columns what they were taken for\">\n",
		t->classes, t->classes, t->classes);
	for (int i = 0; i < t->classes; i++) {
		int64_t n = images_of(t, i);

		for (int k = 0; k < t->classes; k++) {
			if (!cell(t, i, k))
				continue;
			fprintf(f,
				"<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"1\" height=\"1\" "
				"fill-opacity=\"%.2f\"><title>",
				i == k ? "right" : "wrong", k, i,
				depth((double)cell(t, i, k) / (double)n));
			html_format(f, "%s taken for %s: ", t->names[i], t->names[k]);
			fprintf(f, "%" PRId64 "</title></rect>\n", cell(t, i, k));
		}
	}
	fputs("</svg>\n", f);
}

struct pair {
	int label, guess;
	int64_t count;
};

static int by_count(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->label != y->label ? x->label - y->label : x->guess - y->guess;
}

/* Keep the MATRIX_PAIRS largest in pairs, sorted. Returns their number. */
static int find_pairs(const struct test *t, struct pair *pairs)
{
	int n = 0;

	for (int i = 0; i < t->classes; i++)
		for (int k = 0; k < t->classes; k++) {
			struct pair p = { i, k, cell(t, i, k) };

			if (i == k || !p.count ||
				(n == MATRIX_PAIRS && by_count(&p, &pairs[n - 1]) >= 0))
				continue;
			pairs[n < MATRIX_PAIRS ? n++ : n - 1] = p;
			qsort(pairs, (size_t)n, sizeof(*pairs), by_count);
		}
	return n;
}

static void write_pairs(FILE *f, const struct test *t)
{
	struct pair pairs[MATRIX_PAIRS];
	int n = find_pairs(t, pairs);

	if (!n)
		return;
	fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"confused most\"><table><caption>Confused most</caption><thead><tr><th scope=\"col\">labelled</th>"
	      "<th scope=\"col\">taken for</th><th scope=\"col\" class=\"num\">images</th>"
	      "<th scope=\"col\" class=\"num\">of the class</th></tr></thead><tbody>\n",
		f);
	for (int i = 0; i < n; i++) {
		char share[HTML_NUMBER], count[HTML_NUMBER];

		html_format(f,
			"<tr><td>%s</td><td>%s</td><td class=\"num\">%s</td>"
			"<td class=\"num\">%s</td></tr>\n",
			t->names[pairs[i].label], t->names[pairs[i].guess],
			html_count((double)pairs[i].count, count),
			html_percent((double)pairs[i].count / (double)images_of(t, pairs[i].label),
				1, share));
	}
	fputs("</tbody></table></div>\n", f);
}

static void write_matrix(FILE *f, const struct test *t)
{
	fputs("<div class=\"beside\">\n", f);
	if (t->classes <= MATRIX_NUMBERS_MAX)
		write_numbers(f, t);
	else if (t->classes <= MATRIX_PICTURE_MAX)
		write_picture(f, t);
	write_pairs(f, t);
	fputs("</div>\n", f);
}

static void write_mistakes(FILE *f, const struct test *t)
{
	if (!t->n_mistakes)
		return;
	fputs("<h3>Worst mistakes</h3>\n<p class=\"about\">Wrong, and most sure of it.</p>\n"
	      "<div class=\"mistakes\">\n",
		f);
	for (size_t i = 0; i < t->n_mistakes; i++) {
		const struct mistake *m = &t->mistakes[i];
		char sure[HTML_NUMBER];

		fputs("<figure>", f);
		if (m->png) {
			fprintf(f, "<img src=\"data:image/png;base64,%s\" alt=\"", m->png);
			html_format(f, "test image labelled %s\">", t->names[m->label]);
		}
		html_format(f, "<figcaption><b>%s</b> <span>labelled %s</span> <small>%s",
			t->names[m->guess], t->names[m->label],
			html_percent(m->probability, 1, sure));
		fprintf(f, " · no. %" PRId64 "</small></figcaption></figure>\n", m->index);
	}
	fputs("</div>\n", f);
}

/* --- the page --------------------------------------------------------------------------------- */

/* Return the last component of a path. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int is_same(const struct runs *runs, const char *key)
{
	const char *first = run_fact(&runs->v[0], key);

	for (size_t i = 0; i < runs->n; i++) {
		const char *v = run_fact(&runs->v[i], key);

		if (!v || strcmp(v, first) != 0)
			return 0;
	}
	return 1;
}

/* Make a title like "convolutional on fashion-mnist: 2 runs", of what all runs share. */
static char *title_of(const struct runs *runs)
{
	const struct run *r = &runs->v[0];
	auto_free char *what = NULL;

	if (is_same(runs, "net") && is_same(runs, "data"))
		what = xasprintf("%s on %s", run_fact(r, "net"), base_name(run_fact(r, "data")));
	if (runs->n > 1)
		return what ? xasprintf("%s: %zu runs", what, runs->n)
			    : xasprintf("%zu runs", runs->n);
	return what ? take_ptr(&what) : xstrdup(r->label);
}

/* Write "2026-11-20T19:52:19Z · host · onednn, f32, 2 threads". */
static void write_machine(FILE *f, const struct run *r)
{
	static const char *const keys[] = { "time", "host", "backend", "device", "dtype", "ranks",
		"threads" };
	static const char *const units[] = { "", "", "", "", "", " ranks", " threads" };
	const char *dot = "";

	fputs("<p class=\"machine\">", f);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *v = run_fact(r, keys[i]);

		if (!v || (units[i][0] && (strcmp(v, "0") == 0 || strcmp(v, "1") == 0)))
			continue;
		html_format(f, "%s<span>%s%s</span>", dot, v, units[i]);
		dot = " · ";
	}
	fputs("</p>\n", f);
}

static void write_header(FILE *f, const struct runs *runs, const char *title)
{
	html_format(f, "<header><h1>%s</h1>\n", title);
	if (runs->n == 1) {
		auto_free char *outcome = tables_outcome(&runs->v[0]);

		write_machine(f, &runs->v[0]);
		html_format(f, "<p class=\"outcome %s\">The run %s.</p>\n",
			runs->v[0].outcome == RUN_ENDED ? "ended" : "odd", outcome);
		tables_result(f, &runs->v[0]);
	}
	if (runs->n_notes) {
		fputs("<ul class=\"notes\">\n", f);
		for (size_t i = 0; i < runs->n_notes; i++)
			html_format(f, "<li>%s</li>\n", runs->notes[i]);
		fputs("</ul>\n", f);
	}
	fputs("</header>\n<main>\n", f);
}

static void write_tests(FILE *f, const struct runs *runs)
{
	int n = 0;

	for (size_t i = 0; i < runs->n; i++)
		n += runs->v[i].test.classes > 0;
	if (!n)
		return;
	fputs("<section aria-labelledby=\"h-test\"><h2 id=\"h-test\">What it gets wrong</h2>\n", f);
	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];

		if (!r->test.classes)
			continue;
		if (runs->n > 1) {
			fprintf(f, "<details%s><summary><span class=\"dot c%zu\"></span>",
				i == 0 ? " open" : "", i % 8);
			html_format(f, "%s</summary>\n", r->label);
		}
		write_matrix(f, &r->test);
		write_mistakes(f, &r->test);
		if (runs->n > 1)
			fputs("</details>\n", f);
	}
	fputs("</section>\n", f);
}

void report_write(FILE *f, const struct runs *runs)
{
	auto_free char *title = title_of(runs);

	html_page_begin(f, title);
	write_header(f, runs, title);
	if (runs->n > 1)
		tables_differences(f, runs);
	curves_write(f, runs);
	write_tests(f, runs);
	tables_timings(f, runs);
	tables_epochs(f, runs);
	tables_facts(f, runs);
	html_page_end(f);
}
