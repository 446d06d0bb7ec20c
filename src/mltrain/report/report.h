/*
 * A report: one self-contained HTML file about runs. It loads nothing from the network; a
 * Content-Security-Policy tells the browser so, and allows only the report's own script. Without
 * scripts it lacks only the values under the pointer. It follows the reader's light or dark scheme
 * and fits phones and paper.
 */
#pragma once

#include "report/runs.h"

/* Write the page of at least one run. */
void report_write(FILE *f, const struct runs *runs);

/* report.css and report.js, which the build puts into the program. */
extern const char report_css[], report_js[];

/* --- curves.c: the curves of runs as charts, over the steps; the load's over time --- */

/* Write all charts that have data. */
void curves_write(FILE *f, const struct runs *runs);

/*
 * The exponential moving mean of y [n] into ret [n], without the bias at its start (Kingma and Ba,
 * 2015, section 3), over about n / 25 points.
 */
void curve_smooth(const double *y, size_t n, double *ret);

/* --- tables.c: the parts of a page in words and numbers --- */

/* The results of one run, in large type. */
void tables_result(FILE *f, const struct run *r);

/* Several runs side by side: results, and the settings that differ. */
void tables_differences(FILE *f, const struct runs *runs);

/* Where the time went, a bar and a table for each run. */
void tables_timings(FILE *f, const struct runs *runs);

/* The results of each epoch. */
void tables_epochs(FILE *f, const struct runs *runs);

/* All settings of the runs. */
void tables_facts(FILE *f, const struct runs *runs);

/* "reached its end", "was interrupted at step 30", …, to free(). */
char *tables_outcome(const struct run *r);

/* --- chart.c: a chart as inline SVG --- */

#define CHART_LINES_MAX 48
/* Points of a line; more are thinned to the lowest and highest of each interval. */
#define CHART_POINTS_MAX 2000

enum line_style {
	LINE_STRONG,
	LINE_FAINT,  /* behind the others */
	LINE_POINTS, /* with a dot at each value */
};

struct line {
	const char *name; /* untrusted */
	const char *what; /* "raw", "smoothed": ours; NULL: nothing */
	int color;        /* 0.. */
	enum line_style style;
	const double *x, *y; /* [n], finite, x not falling; borrowed */
	size_t n;
};

struct chart {
	const char *id, *title; /* ours */
	const char *about;      /* a sentence under the title; ours; may be NULL */
	const char *x_name;
	const char *unit; /* of y, "%" or "images/s"; NULL: none */
	double scale;     /* y is shown times this; 0: as it is */
	int log_choice;   /* offer a logarithmic axis */
	int from_zero;    /* the axis begins at 0 */
	int x_log;        /* if x spans several powers of ten */
	int alone;        /* the only run: a single line needs no legend */
	struct line lines[CHART_LINES_MAX];
	size_t n;
};

/* Add a line; empty lines and those beyond CHART_LINES_MAX are left out. */
void chart_add(struct chart *c, const struct line *l);

/* Write the chart as a <figure>; one without lines writes nothing. */
void chart_write(FILE *f, const struct chart *c);

/*
 * Round positions for at most max ticks on an axis from lo to hi, ascending.
 *
 * Returns how many.
 */
size_t chart_ticks(double lo, double hi, int is_log, double *ret, size_t max);

/* --- traffic.c: the results of `mltrain load`, and their page --- */

#define TRAFFIC_MAX       16                  /* runs on a page */
#define TRAFFIC_BYTES_MAX ((size_t)256 << 20) /* of a file */

struct traffic {
	struct traffic_run *v; /* [n], owned */
	size_t n;
};

void traffic_done(struct traffic *t);

/* Does a file's text begin as such results do? */
int traffic_is(const char *text, size_t len);

/*
 * Add the runs of a file.
 *
 *   path   for messages, and for the name of a run that has another one's
 *
 * Returns 0, -EPROTO if a line is not the results of a run, -E2BIG above TRAFFIC_MAX.
 */
int traffic_parse(
	struct traffic *ret, const char *text, size_t len, const char *path, struct mlr_error *err);

/* Put its file behind a name that several runs have. */
void traffic_tell_apart(struct traffic *t);

/* Write the page of at least one run. */
void traffic_write(FILE *f, const struct traffic *t);
