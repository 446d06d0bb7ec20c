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

#endif
