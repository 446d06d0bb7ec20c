/*
 * Whether and when to try again: exponential delays with some chance in them, the server's own
 * Retry-After before ours, a fresh start after every MiB that arrived.
 */
#ifndef MLR_REGISTRY_RETRY_H
#define MLR_REGISTRY_RETRY_H

#include <stdint.h>

#define RETRY_TRIES      6 /* in a row without progress */
#define RETRY_FIRST_MS   500
#define RETRY_LONGEST_MS 120000 /* a server that asks for more is told to the user instead */

struct retry {
	int limit; /* RETRY_TRIES or fewer */
	int tries;
	uint64_t mark; /* bytes that had arrived when tries was last reset */
};

#define RETRY_INIT                \
	{                         \
		RETRY_TRIES, 0, 0 \
	}

/*
 * A try failed in a way that may pass.
 *
 *   received       bytes that have arrived so far, in all tries together
 *   retry_after_s  what the server asks for, -1 when nothing
 *   chance         any number
 *
 * Returns the milliseconds to wait before the next try, or -1 to give up.
 */
int64_t retry_delay(struct retry *r, uint64_t received, int64_t retry_after_s, unsigned chance);

#endif
