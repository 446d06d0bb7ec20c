/*
 * A chart as inline SVG, drawn without scripts: axes, grid, lines, and where it is wanted a second
 * drawing with a logarithmic axis that a checkbox shows by CSS alone. What a script needs to tell
 * values under the pointer follows as JSON.
 */
#ifndef MLT_REPORT_CHART_H
#define MLT_REPORT_CHART_H

#include <stddef.h>
#include <stdio.h>

#define CHART_LINES_MAX 48
/* Points of a line; more are thinned to the lowest and highest of each stretch. */
#define CHART_POINTS_MAX 2000

enum line_style {
	LINE_STRONG,
	LINE_FAINT,  /* behind the others */
	LINE_POINTS, /* with a dot at each value */
};

struct line {
	const char *name; /* a stranger's */
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
	const char *unit; /* of y, "%" or "images/s"; "" for none */
	double scale;     /* y is shown times this */
	int log_choice;   /* offer a logarithmic axis */
	int from_zero;    /* the axis begins at 0 */
	int x_log;        /* where x spans several powers of ten */
	int alone;        /* of one run: a single line needs no legend */
	struct line lines[CHART_LINES_MAX];
	size_t n;
};

/* Add a line; one of no points is left out, as are those beyond CHART_LINES_MAX. */
void chart_add(struct chart *c, const struct line *l);

/* Write it as a <figure>; a chart of no lines writes nothing. */
void chart_write(FILE *f, const struct chart *c);

/*
 * Round places for ticks on an axis from lo to hi: at most max, ascending, within.
 *
 * Returns how many.
 */
size_t chart_ticks(double lo, double hi, int is_log, double *ret, size_t max);

#endif
