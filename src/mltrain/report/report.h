/*
 * A report: one self-contained HTML file about runs. It loads nothing from the network; a
 * Content-Security-Policy tells the browser so, and allows only the report's own script. Without
 * scripts it lacks only the values under the pointer. It follows the reader's light or dark scheme
 * and fits phones and paper.
 */
#ifndef MLT_REPORT_REPORT_H
#define MLT_REPORT_REPORT_H

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

#endif
