#include "registry/retry.h"

#define PROGRESS_MIN (1u << 20) /* bytes; less could be trickle from a server that hangs */

int64_t retry_delay(struct retry *r, uint64_t received, int64_t retry_after_s, unsigned chance)
{
	int64_t ms;

	if (received - r->mark >= PROGRESS_MIN) {
		r->mark = received;
		r->tries = 0;
	}
	if (++r->tries >= r->limit)
		return -1;

	/* Many nodes that failed together must not retry together. */
	ms = (int64_t)RETRY_FIRST_MS << (r->tries - 1);
	ms += (int64_t)(chance % (unsigned)(ms / 2));
	if (retry_after_s >= 0 && retry_after_s * 1000 > ms)
		ms = retry_after_s * 1000 + (int64_t)(chance % 500);
	return retry_after_s > RETRY_LONGEST_MS / 1000 ? -1 : ms;
}
