/*
 * Holds: every process that changes the store says so by a file of its own, "holds/<name>", and
 * beats: it writes a counter into it every few seconds. Locks (store/lock.h) and works in progress
 * name the hold of their maker, and mean something as long as that hold is there and alive.
 *
 * flock(2) is not used: NFS and Lustre may grant it on each node for itself (localflock) or fail
 * it. Whether a process of this host lives is judged by /proc. Any other is judged by its beats, as
 * seen on the waiter's own clock, so that clocks need not agree; its hold is deleted when no beat
 * was seen for STORE_STALE_S seconds. A process that was suspended for so long finds its hold gone
 * before it publishes anything.
 *
 * Adders and removers keep out of each other's way as in Dekker's algorithm: each makes its own
 * file first and then looks for the other's, so at least one of them sees the other. Making a file
 * also refreshes what NFS has cached of the directory. An adder says what it counts on: everything,
 * then a remover waits for it; or certain digests, then the remover spares these and goes on.
 * Removers exclude each other by a token, a file that each renames to its own name and back; it is
 * never made anew, so that removing works on a file system without a free inode.
 *
 *   holds/a-<16 hex>.<process>   an adder: a line with the counter, then "*" or a digest (hex) a
 * line holds/r-<16 hex>.<process>   the remover: a line with the counter holds/token nobody is
 * removing
 */
#ifndef MLR_STORE_HOLD_H
#define MLR_STORE_HOLD_H

#include "base/error.h"
#include "base/strv.h"
#include "store/process.h"
#include "store/store.h"

/* Without a beat for so long a process of another host is taken for dead; $MLRUN_STALE_SECONDS
 * overrides. A holder beats twelve times as often. */
#define STORE_STALE_S   60
#define STORE_HOLD_NAME (STORE_PROCESS_NAME + 24)

struct store_hold;

/* The seconds in force. */
int store_stale_seconds(void);

/* "a-<16 hex>.<process>", the name of the handle's own hold; store_hold() came before. */
const char *store_hold_name(const struct store *st);

/* Has another process taken the handle for dead, as it had not beaten for so long? Looks. */
int store_hold_is_lost(struct store *st);

/* "this process was suspended …": -ESTALE. */
int store_hold_lost(struct store *st, struct mlr_error *err);

/* --- waiting for others --------------------------------------------------- */

struct store_seen;

/* What somebody who waits remembers. */
struct store_wait {
	struct store *st;
	const char *what; /* completes "waiting for process 12 on 'host', which is …" */
	int waited_ms, nap_ms, told;
	struct store_seen *seen; /* n of them: beats of other hosts */
	size_t n;
};

#define STORE_WAIT_INIT(st, what)              \
	{                                      \
		(st), (what), 0, 0, 0, NULL, 0 \
	}

void store_wait_done(struct store_wait *w);

/* Does the process of this hold live? 1, or 0: then the hold is deleted. */
int store_wait_alive(struct store_wait *w, const char *hold);

/* The same for somebody who does not wait: 1 also for what cannot be judged at once. A hold of
 * another host that has not beaten for `seconds` by the file system's clock is dead. */
int store_hold_alive(struct store *st, const char *hold, int seconds);

/* Sleep a little before the next look; tells whom one waits for when it gets long. Returns 0 or
 * -ECANCELED. */
int store_wait_nap(struct store_wait *w, const char *hold, struct mlr_error *err);

/* Wait until nobody else changes the store; what completes "waiting for another process, which is
 * …". */
int store_wait_for_all(struct store *st, const char *what, struct mlr_error *err);

/* --- removers ------------------------------------------------------------- */

/*
 * Be the only remover. Waits for another one, and for adders that count on everything.
 *
 *   spare  gets the digests (hex) that adders at work count on
 */
int store_remover_begin(
	struct store *st, struct strv *spare, struct store_hold **ret, struct mlr_error *err);

/* Is it still the remover? Else somebody took it for dead: 0. */
int store_remover_holds(const struct store_hold *h);

/* NULL is fine. */
void store_remover_end(struct store_hold *h);

/* --- for store.c ----------------------------------------------------------- */

/* Hold everything (digests NULL) or these; the handle's mutex is held. */
int store_hold_set(struct store *st, const struct strv *digests, struct mlr_error *err);
void store_hold_close(struct store_hold *h);

#endif
