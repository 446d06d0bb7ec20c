/* The curves of runs as charts: each over the steps, those of the load over time. */
#ifndef MLT_REPORT_CURVES_H
#define MLT_REPORT_CURVES_H

#include "report/runs.h"

#include <stdio.h>

/* Write all that there is something to draw for. */
void curves_write(FILE *f, const struct runs *runs);

/*
 * The moving mean of y [n] into ret [n], exponential and without the bias of its beginning (Kingma
 * and Ba, 2015, section 3), over some n / 25 points.
 */
void curve_smooth(const double *y, size_t n, double *ret);

#endif
