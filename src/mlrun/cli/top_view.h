/* `mlrun gpu top` as lines of text. */
#ifndef MLR_CLI_TOP_VIEW_H
#define MLR_CLI_TOP_VIEW_H

#include "cli/top.h"

/*
 * Lines that end with '\n', each of at most width columns, without control characters.
 *
 *   height  of lines at most, 0: as many as there are; processes are what is left out first, then
 * the line of cores, so that there is room for GPUs
 *
 * To free().
 */
char *top_view(const struct top *t, int width, int height);

#endif
