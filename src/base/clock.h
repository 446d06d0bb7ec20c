/* Time that goes by, whatever the calendar is set to. */
#ifndef MLR_BASE_CLOCK_H
#define MLR_BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since some moment before the machine's programs began (CLOCK_MONOTONIC). */
int64_t mlr_now_ms(void);

/* The same in seconds, as finely as the clock goes. */
double mlr_now(void);

#endif
