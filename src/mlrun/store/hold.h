/*
 * Holds: every process that changes the store has a file, "holds/<name>", and writes a counter into
 * it every few seconds, its heartbeat. Locks (store/lock.h) and work in progress name the hold of
 * their maker, and count while that hold exists and is alive.
 *
 * flock(2) is not used: NFS and Lustre may grant it on each node separately (localflock) or fail
 * it. /proc shows whether a process of this host lives. Others are judged by their heartbeats, as
 * the waiter's own clock measures them, so that clocks need not agree; a hold without a heartbeat
 * for STORE_STALE_S seconds is deleted. A process that was suspended for so long finds its hold
 * gone before it publishes anything.
 *
 * Adders and removers avoid each other as in Dekker's algorithm: each makes its own file first and
 * then looks for the other's, so at least one of them sees the other. Making a file also refreshes
 * NFS's cache of the directory. An adder states what it relies on: everything, and a remover waits
 * for it; or certain digests, and a remover spares these and goes on. Removers exclude each other
 * by a token, a file that each renames to its own name and back. The token is never made anew, so
 * that removing works on a file system without a free inode.
 *
 *   holds/a-<16 hex>.<process>   an adder: the counter, then "*" or digests (hex), each on a line
 *   holds/r-<16 hex>.<process>   the remover: the counter
 *   holds/token                  there while nobody removes
 */
#pragma once

#include "store/process.h"

/* A process of another host without a heartbeat for so long counts as dead; $MLRUN_STALE_SECONDS
 * overrides this. A holder writes its counter twelve times as often. */
#define STORE_STALE_S   60
#define STORE_HOLD_NAME (STORE_PROCESS_NAME + 24)
#define HOLD_TOKEN      "holds/token"
#define HOLD_BEAT_LEN   17 /* the counter's line */
#define HOLD_PREFIX     8  /* "holds/" and a NUL */

struct store_hold {
	struct store *st;
	char path[STORE_HOLD_NAME + HOLD_PREFIX]; /* "holds/<name>" */
	pid_t pid;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	int fd;
	uint64_t beats;
	int lost, end, has_thread;
	pthread_t thread;
};

/* The seconds in force. */
int store_stale_seconds(void);

/* The name of the handle's own hold, "a-<16 hex>.<process>", after store_hold(). */
const char *store_hold_name(const struct store *st);

/* Look whether another process considered the handle dead and deleted its hold. */
int store_hold_is_lost(struct store *st);

/* Set the error "this process was suspended …". Returns -ESTALE. */
int store_hold_lost(struct store *st, struct mlr_error *err);

/* --- waiting for others --------------------------------------------------- */

struct store_seen;

/* The memory of a waiting process. */
struct store_wait {
	struct store *st;
	const char *what; /* completes "waiting for process 12 on 'host', which is …" */
	int waited_ms, nap_ms, told;
	struct store_seen *seen; /* n of them: heartbeats of other hosts */
	size_t n;
};

#define STORE_WAIT_INIT(st, what)              \
	{                                      \
		(st), (what), 0, 0, 0, NULL, 0 \
	}

void store_wait_done(struct store_wait *w);

/* Is the process of this hold alive? Returns 1, or 0 after deleting the hold. */
int store_wait_alive(struct store_wait *w, const char *hold);

/* The same without waiting: 1 also if that cannot be told at once. A hold of another host without a
 * heartbeat for `seconds`, by the file system's clock, is dead. */
int store_hold_alive(struct store *st, const char *hold, int seconds);

/* Sleep a little before the next look; after a while, log what this process waits for. Returns 0 or
 * -ECANCELED. */
int store_wait_nap(struct store_wait *w, const char *hold, struct mlr_error *err);

/* Wait until nobody else changes the store; what completes "waiting for another process, which is
 * …". */
int store_wait_for_all(struct store *st, const char *what, struct mlr_error *err);

/* --- removers ------------------------------------------------------------- */

/*
 * Become the only remover. Waits for another one, and for adders that rely on everything.
 *
 *   spare  gets the digests (hex) that adders at work rely on
 */
int store_remover_begin(
	struct store *st, struct strv *spare, struct store_hold **ret, struct mlr_error *err);

/* Is this still the remover? 0: another process considered it dead. */
int store_remover_holds(const struct store_hold *h);

/* NULL is fine. */
void store_remover_end(struct store_hold *h);

/* --- for store.c ----------------------------------------------------------- */

/* Hold everything (digests NULL) or these; the handle's mutex is held. */
int store_hold_set(struct store *st, const struct strv *digests, struct mlr_error *err);
void store_hold_close(struct store_hold *h);

/* Write the counter once. The caller has h->lock, or the only pointer to h. Sets lost if the file
 * is gone. */
void hold_file_beat(struct store_hold *h);
