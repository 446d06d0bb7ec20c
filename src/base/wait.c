#include "base/wait.h"

#include <time.h>

int mlr_cond_wait_ms(pthread_cond_t *changed, pthread_mutex_t *lock, long ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
}
