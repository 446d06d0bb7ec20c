/* The curves of runs as charts, over the steps; the load's over time. */
#ifndef MLT_REPORT_CURVES_H
#define MLT_REPORT_CURVES_H

#include "report/runs.h"

/* Write all charts that have data. */
void curves_write(FILE *f, const struct runs *runs);

/*
 * The exponential moving mean of y [n] into ret [n], without the bias at its start (Kingma and Ba,
 * 2015, section 3), over about n / 25 points.
 */
void curve_smooth(const double *y, size_t n, double *ret);

#endif
