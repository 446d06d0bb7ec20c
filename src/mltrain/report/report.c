#include "report/report.h"

#include "report/curves.h"
#include "report/html.h"
#include "report/matrix.h"
#include "report/tables.h"

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
		matrix_write(f, &r->test);
		matrix_mistakes_write(f, &r->test);
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
