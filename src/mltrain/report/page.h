/* The frame of every page: head, style, policy, footer and script. */
#ifndef MLT_REPORT_PAGE_H
#define MLT_REPORT_PAGE_H

#include <stdio.h>

/* Write everything up to the body's first element. The title is untrusted. */
void page_begin(FILE *f, const char *title);

/* End <main> and the page. */
void page_end(FILE *f);

#endif
