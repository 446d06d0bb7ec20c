#include "base/clock.h"

#include <string.h>
#include <time.h>

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t milliseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t mlr_now_ms(void)
{
	return milliseconds(CLOCK_MONOTONIC);
}

int64_t mlr_epoch_ms(void)
{
	return milliseconds(CLOCK_REALTIME);
}

double mlr_now(void)
{
	return seconds(CLOCK_MONOTONIC);
}

double mlr_epoch(void)
{
	return seconds(CLOCK_REALTIME);
}

void mlr_sleep_us(int64_t us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

void mlr_sleep_ms(int64_t ms)
{
	mlr_sleep_us(ms * 1000);
}

void mlr_time_utc(int64_t at, char out[MLR_TIME_SIZE])
{
	time_t t = (time_t)at;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, MLR_TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm))
		strcpy(out, "?");
}

int mlr_cond_wait_until(pthread_cond_t *changed, pthread_mutex_t *lock, double at)
{
	struct timespec until = { (time_t)at, (long)((at - (double)(time_t)at) * 1e9) };

	return pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
}

int mlr_cond_wait_ms(pthread_cond_t *changed, pthread_mutex_t *lock, long ms)
{
	return mlr_cond_wait_until(changed, lock, mlr_now() + (double)ms / 1e3);
}
