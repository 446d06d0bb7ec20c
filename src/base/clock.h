/* Clocks: one that the time of day does not affect, and the time of day. */
#pragma once

#include <stdint.h>
#include <pthread.h>

/* Milliseconds since some moment at or before boot (CLOCK_MONOTONIC). */
int64_t mlr_now_ms(void);

/* The same in seconds, at the clock's full resolution. */
double mlr_now(void);

/* Sleep, or less if a signal comes. */
void mlr_sleep_us(int64_t us);
void mlr_sleep_ms(int64_t ms);

/* Milliseconds since the epoch (CLOCK_REALTIME), and the same in seconds. */
int64_t mlr_epoch_ms(void);
double mlr_epoch(void);

#define MLR_TIME_SIZE 32
/* Print seconds since the epoch as "2026-01-31T08:15:00Z" (RFC 3339). */
void mlr_time_utc(int64_t at, char out[MLR_TIME_SIZE]);

/*
 * Waits with a time limit on a monotonic clock: setting the time of day neither ends a wait nor
 * prolongs it.
 */

/* As pthread_cond_timedwait(3), until mlr_now() is `at`. Returns 0 or ETIMEDOUT. */
int mlr_cond_wait_until(pthread_cond_t *changed, pthread_mutex_t *lock, double at);

/* The same, for at most ms milliseconds. */
int mlr_cond_wait_ms(pthread_cond_t *changed, pthread_mutex_t *lock, long ms);
