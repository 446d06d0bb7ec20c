/* Inside dist: one call of elastic_regroup(), shared by the files that do parts of it. */
#ifndef MLT_DIST_ELASTIC_CHANGE_H
#define MLT_DIST_ELASTIC_CHANGE_H

#include "dist/elastic_run.h"

#define CHANGE_TURN_MS 100 /* between looks at signals */
#define CHANGE_SEND_MS 30000

struct change {
	struct elastic *e;
	struct group_report mine;
	struct group_report reports[GROUP_MAX]; /* of the present group's members; id 0: none yet */
	int dead[GROUP_MAX], told[GROUP_MAX];   /* told: its loss was named */
	int watch[GROUP_MAX]; /* a connection that shows the end of a member that is to call; -1 */
	int is_orderly;       /* no rank was lost before: a coordinator that is gone has left */
	int joined, left, lost;
};

/* Has a signal told this process to leave? */
int change_is_told_to_stop(const struct change *c);

/* This rank's place in the present group; -1: it is a newcomer. */
int change_place(const struct change *c);

/* Member i is lost. */
void change_lose(struct change *c, int i);

/* The coordinator: hear all, decide the next group and tell it. *segment gets a descriptor or -1.
 * Returns 0; -EINTR if told to stop while there were too few ranks; -ESTALE if this rank was left
 * out. */
int change_lead(struct change *c, int *segment, struct mlr_error *err);

/* The others: report, and wait for the coordinator's word. Returns 0 with an outcome; 1: this rank
 * is the coordinator now; -ESTALE if it was left out; -EPROTO if it was refused. */
int change_follow(struct change *c, enum elastic_outcome *ret, struct mlr_error *err);

/* Read why the other end refuses this rank. Returns -ESTALE for a member, -EPROTO for a newcomer.
 */
int change_hear_refusal(struct change *c, int fd, struct mlr_error *err);

/* The run has ended without this member. Returns -ESTALE. */
int change_end(const struct change *c, struct mlr_error *err);

/* Connect the ranks of the new group. segment is taken. Returns 0, or -EIO if one was lost. */
int change_connect(struct elastic *e, int segment, struct mlr_error *err);

#endif
