/*
 * Decides whether and when to retry: exponential delays with jitter, the server's Retry-After if
 * given, and a fresh start after every MiB of progress.
 */
#pragma once

#include "base/base.h"

#define RETRY_TRIES      6 /* in a row without progress */
#define RETRY_FIRST_MS   500
#define RETRY_LONGEST_MS 120000 /* longer delays that a server asks for are errors */

struct retry {
	int limit; /* RETRY_TRIES or fewer */
	int tries;
	uint64_t mark; /* bytes received when tries was last reset */
};

#define RETRY_INIT                \
	{                         \
		RETRY_TRIES, 0, 0 \
	}

/*
 * After a transient failure:
 *
 *   received       bytes received so far, in all tries
 *   retry_after_s  the server's Retry-After, -1 if none
 *   chance         any number
 *
 * Returns the milliseconds to wait before the next try, or -1 to give up.
 */
int64_t retry_delay(struct retry *r, uint64_t received, int64_t retry_after_s, unsigned chance);
