/* Inside dist: one rank of an elastic run, shared by the files elastic*.c. */
#pragma once

#include "dist/elastic.h"
#include "dist/listener.h"
#include "dist/sums.h"

/* --- rendezvous.c: the file at which ranks meet --- */

struct rendezvous {
	struct member coordinator;
	struct secret secret;
	uint32_t generation;
};

/* Read the file. Returns 0, -ENOENT, -EACCES for one that others own or may read, -EPROTO for other
 * content. */
int rendezvous_read(const char *path, struct rendezvous *ret, struct mlr_error *err);

/* Leftover temporary files contain the secret, so they are deleted whenever the file is created or
 * removed. */

/* Make the file. Returns 0, or -EEXIST if another process was first. */
int rendezvous_create(const char *path, const struct rendezvous *r, struct mlr_error *err);

/* Replace the file that this run made. */
int rendezvous_replace(const char *path, const struct rendezvous *r, struct mlr_error *err);

/* Remove the file if it still is this one. Two processes may find a dead run's file at once: the
 * one that is late removes nothing. */
void rendezvous_remove(const char *path, const struct rendezvous *r);

/* --- a rank --- */

#define ELASTIC_WAITING 64 /* newcomers that wait for a place */

struct elastic {
	struct dist dist; /* first, so that both have the same address */
	struct elastic_options o;
	struct secret secret;
	struct listener *listener;
	struct member self;
	json_t *options; /* a newcomer must have the same, */
	char data[72];   /* and data with this digest */

	struct group group; /* the present one; n is 0 until the first */
	int fd[GROUP_MAX];  /* rank 0: a connection to each other rank; others: fd[0], to rank 0;
			       -1: none */
	int leader;         /* the coordinator's place in the group: 0, but while it changes */
	int broken;
	int64_t heard_ms[3]; /* when it has heard of another rank, the latest first; 0: not yet */
	struct elastic_change change;

	/* Of a wait: see elastic_late(). */
	int64_t idle_since; /* of sums */
	int64_t late_since; /* the wait whose ranks have been named */
	int64_t looked, asked;
	char named[GROUP_MAX];
	char lost[GROUP_MAX]; /* in the present change: not waited for any more */
	char said[GROUP_MAX]; /* of the group: suspended, and reported */
	int has_note;

	/* Of the present generation; NULL where there is one rank. */
	struct sums *sums;
	struct node_sums *node;
	struct ring_sums *ring;

	/* Rank 0's. */
	struct guest waiting[ELASTIC_WAITING];
	int n_waiting;
	struct rendezvous file; /* as written; a newcomer's: as read */
	int has_file;           /* o.where is a file, and this process has written it */
};

/* Close the listener and all connections to other processes. */
void elastic_hang_up_all(struct elastic *e);

/* Close what belongs only to the present generation. */
void elastic_drop_sums(struct elastic *e);

/* Send a frame without a body. Returns 0 or a negative errno. */
int elastic_tell(const struct elastic *e, int fd, enum frame_kind kind, int timeout_ms);

/* Wait in sums: struct exchange's idle. */
int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err);

/* --- elastic.c: the star ------------------------------------------------------------------- */

/* Sum over the star, as exchange.h says. */
int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err);

/* Note that a rank was lost (-1: it is not known which), and return -EIO with a message. */
int elastic_break(struct elastic *e, int rank, struct mlr_error *err);

/* Return the longest recent time in which this rank has heard nothing. A rank that others consider
 * lost was silent for at least LIFELINE_SILENCE_MS. */
int64_t elastic_silence_ms(const struct elastic *e);

/* Look, without waiting, whether a connection of the star shows a loss. Returns 0 or -EIO. */
int elastic_look(struct elastic *e, struct mlr_error *err);

/* --- elastic_late.c: who is waited for ------------------------------------------------------- */

#define LATE_MS 10000 /* a wait of this length is reported */

/*
 * Look after a wait for other ranks, once a second or more often. After ten seconds the ranks that
 * do not wait themselves are named, with the reason, on stderr and in the rendezvous file's
 * neighbour FILE.waits, which mlrun shows. The coordinator sees to all others, they to it.
 *
 *   since   the wait's beginning, mlr_now_ms(); it tells waits apart
 *
 * Returns a rank that counts as lost, because mlrun says that its job is suspended; or -1.
 */
int elastic_late(struct elastic *e, int64_t since);

/* The same for a wait that a lost rank ends: struct frame's turn. Returns 0 or -EIO. */
int elastic_turn(void *ctx, int64_t since, struct mlr_error *err);

/* Say what is waited for that is no rank of the group. The text is replaced by the next one, and
 * removed when steps are made again (elastic_late_done()). */
void elastic_note(struct elastic *e, const char *text);
void elastic_late_done(struct elastic *e);

/* Has mlrun suspended the job of this member, and does the member not answer? */
int elastic_is_suspended(struct elastic *e, const struct member *m);

/* --- elastic_connect.c ---------------------------------------------------------------------- */

/*
 * Connect to a rank and prove the secret.
 *
 *   ms   for its answers
 *
 * Returns a descriptor; -EHOSTUNREACH if nobody is there, so that it has ended; or another -errno,
 * which does not show that: too many callers, a process that is stopped, too many open files.
 */
int elastic_call(struct elastic *e, const struct member *to, int ms, struct mlr_error *err);

/* Did a call fail with this errno because of this machine, whatever is at the other end? */
int elastic_is_local_failure(int code);
#define ELASTIC_CALL_MS 5000

/* --- elastic_lead.c ------------------------------------------------------------------------- */

/*
 * Answer ranks that take this run's coordinator for lost (FRAME_REJOIN, FRAME_WATCH): those that
 * the group has left out are refused. A member of the group waits for the next change.
 */
void elastic_answer_left_out(struct elastic *e);

/* On rank 0 inform the callers that still wait that the run is over. */
void elastic_tell_end(struct elastic *e);

/* --- elastic_meet.c ------------------------------------------------------------------------- */

/* Find the run, or begin it: elastic_open(). */
int elastic_meet(struct elastic *e, struct mlr_error *err);

/* Write the rendezvous file, if there is one, for this process as coordinator. Without it training
 * goes on: a failure is a warning. */
void elastic_publish(struct elastic *e);

/*
 * May this rank go on without those of its group that are lost, or was it left out itself? The
 * others may have gone on, or ended the run, while it was stopped or cut off: then it must not
 * write over their work. The rendezvous file shows it. With HOST:PORT there is none; a rank that
 * has lost all others then goes on if it has heard of them lately.
 *
 *   is_alone   all others are lost
 *
 * Returns 0, -ESTALE if this rank was left out, or what failed when reading the file.
 */
int elastic_check_run(struct elastic *e, int is_alone, struct mlr_error *err);

/* --- one call of elastic_regroup(), whose parts stand in elastic_{lead,follow,connect}.c ------ */

#define CHANGE_TURN_MS 100 /* between looks at signals */
#define CHANGE_SEND_MS 30000

struct change {
	struct elastic *e;
	struct group_report mine;
	struct group_report reports[GROUP_MAX]; /* of the present group's members; id 0: none yet */
	int dead[GROUP_MAX], told[GROUP_MAX];   /* told: its loss was reported */
	int watch[GROUP_MAX]; /* a connection that shows the end of a member that is to call; -1 */
	int is_orderly;       /* no rank was lost before: a coordinator that is gone has left */
	int joined, left, lost;
};

/* Did a signal ask this process to leave? */
int elastic_is_stopping(const struct change *c);

/* Return this rank's place in the present group; -1: it is a newcomer. */
int elastic_own_place(const struct change *c);

/* Note that member i is lost. */
void elastic_lose(struct change *c, int i);

/* As the coordinator hear all, decide the next group and send it. *segment gets a descriptor or -1.
 * Returns 0; -EINTR after a signal to stop while there were too few ranks; -ESTALE if this rank was
 * left out. */
int elastic_lead(struct change *c, int *segment, struct mlr_error *err);

/* Does a younger member live, that leads when this one leaves? The youngest stays until the run's
 * end is written. */
int elastic_has_heir(const struct change *c);

/* As another rank report, and wait for the coordinator's answer. Returns 0 with an outcome; 1: this
 * rank is the coordinator now; -ESTALE if it was left out; -EPROTO if it was refused. */
int elastic_follow(struct change *c, enum elastic_outcome *ret, struct mlr_error *err);

/* Read why the other end refuses this rank. Returns -ESTALE for a member, -EPROTO for a newcomer.
 */
int elastic_hear_refusal(struct change *c, int fd, struct mlr_error *err);

/* Fail because the run has ended without this member. Returns -ESTALE. */
int elastic_fail_ended(const struct change *c, struct mlr_error *err);
