#include "report/matrix.h"

#include "report/html.h"

#include <math.h>

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
	char error[32];

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
		char share[32], count[48];

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

void matrix_write(FILE *f, const struct test *t)
{
	fputs("<div class=\"beside\">\n", f);
	if (t->classes <= MATRIX_NUMBERS_MAX)
		write_numbers(f, t);
	else if (t->classes <= MATRIX_PICTURE_MAX)
		write_picture(f, t);
	write_pairs(f, t);
	fputs("</div>\n", f);
}

void matrix_mistakes_write(FILE *f, const struct test *t)
{
	if (!t->n_mistakes)
		return;
	fputs("<h3>Worst mistakes</h3>\n<p class=\"about\">Wrong, and most sure of it.</p>\n"
	      "<div class=\"mistakes\">\n",
		f);
	for (size_t i = 0; i < t->n_mistakes; i++) {
		const struct mistake *m = &t->mistakes[i];
		char sure[32];

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
