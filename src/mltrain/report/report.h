/*
 * A report: one HTML file about runs, complete in itself. It asks no network for anything (a
 * Content-Security-Policy says so to the browser, and lets only its own script run), is whole
 * without scripts but for the values under the pointer, follows the reader's light or dark scheme,
 * fits telephones and paper.
 */
#ifndef MLT_REPORT_REPORT_H
#define MLT_REPORT_REPORT_H

#include "report/runs.h"

#include <stdio.h>

/* Write the page of some runs, of which there is at least one. */
void report_write(FILE *f, const struct runs *runs);

/* report.css and report.js, as the build put them into the program. */
extern const char report_css[], report_js[];

#endif
