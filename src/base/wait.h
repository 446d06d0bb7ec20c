/*
 * Waits with a time limit on a monotonic clock: setting the time of day neither ends a wait nor
 * prolongs it.
 */
#ifndef MLR_BASE_WAIT_H
#define MLR_BASE_WAIT_H

#include <pthread.h>

/* As pthread_cond_timedwait(3), for at most ms milliseconds. Returns 0 or ETIMEDOUT. */
int mlr_cond_wait_ms(pthread_cond_t *changed, pthread_mutex_t *lock, long ms);

#endif
