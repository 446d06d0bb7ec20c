/* The processors that this process may use. */
#ifndef MLR_BASE_PROCESSORS_H
#define MLR_BASE_PROCESSORS_H

#include <stddef.h>

/* How many: those of its affinity mask, which a batch job sets; at least 1. */
size_t processors_count(void);

#endif
