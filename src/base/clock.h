/* Clocks: one that the time of day does not affect, and the time of day. */
#ifndef MLR_BASE_CLOCK_H
#define MLR_BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since some moment at or before boot (CLOCK_MONOTONIC). */
int64_t mlr_now_ms(void);

/* The same in seconds, at the clock's full resolution. */
double mlr_now(void);

/* Sleep, or less if a signal comes. */
void mlr_sleep_ms(int64_t ms);

/* Milliseconds since the epoch (CLOCK_REALTIME). */
int64_t mlr_epoch_ms(void);

#endif
