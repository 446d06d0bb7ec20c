/*
 * A chart as inline SVG, drawn without scripts: axes, grid and lines. On request it has a second
 * drawing with a logarithmic axis, which a checkbox shows by CSS alone. The data that a script
 * needs to show values under the pointer follows as JSON.
 */
#ifndef MLT_REPORT_CHART_H
#define MLT_REPORT_CHART_H

#include "base/base.h"

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

#endif
