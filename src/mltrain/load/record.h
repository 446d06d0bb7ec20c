/* The results of a run as JSON, which `mltrain report` reads. mltrain-load(1) lists its keys. */
#ifndef MLT_LOAD_RECORD_H
#define MLT_LOAD_RECORD_H

#include "load/summary.h"

#include <stddef.h>

/* Make a line, with a newline at its end, to free(). All keys are always there, null if unknown. */
char *record_make(const struct summary *s, size_t *len);

#endif
