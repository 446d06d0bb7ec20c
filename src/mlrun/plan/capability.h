/* Linux capabilities by their names, capabilities(7). */
#ifndef MLR_PLAN_CAPABILITY_H
#define MLR_PLAN_CAPABILITY_H

#include <stdint.h>

/* A name with or without "CAP_", in any case of letters, or "ALL": the bits it stands for; 0 for
 * what is no capability of this program's. */
uint64_t capability_bits(const char *name);

/* "CAP_CHOWN" of bit number n; NULL when it has no name here. */
const char *capability_name(unsigned n);

#endif
