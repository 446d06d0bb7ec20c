/* The page about runs of `mltrain load`: numbers side by side, curves, checks. */
#ifndef MLT_REPORT_TRAFFIC_PAGE_H
#define MLT_REPORT_TRAFFIC_PAGE_H

#include "report/traffic.h"

/* Write the page of at least one run. */
void traffic_page_write(FILE *f, const struct traffic *t);

#endif
