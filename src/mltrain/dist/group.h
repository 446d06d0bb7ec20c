/*
 * The group of an elastic run: its ranks in one generation, and the choice of the next one. Data
 * only; the coordinator decides the next group and sends it to every rank.
 *
 * Members are in the order in which they joined, and a member's place is its rank. The first, the
 * oldest, is the coordinator. When it leaves or dies, the next one is.
 */
#pragma once

#include "dist/lifeline.h"

#include <jansson.h>

#define GROUP_MAX     64 /* ranks */
#define GROUP_OPTIONS 48 /* options of a run */

/* The progress of a rank's weights. */
struct group_progress {
	int32_t has; /* 0: a newcomer, without weights */
	int32_t epochs_done;
	uint64_t step;
};

struct member {
	uint64_t id; /* never used twice in a run */
	int32_t pid;
	int32_t needs; /* it takes weights from the source */
	char host[64];
	char boot[40];   /* the kernel's boot_id: equal on one machine */
	char worker[24]; /* of mlrun's, in which it runs ($MLRUN_ELASTIC_WORKER); "" */
	struct lifeline_offer offer;
};

/* The body of FRAME_GROUP: as many members as n. */
struct group {
	uint32_t generation;
	uint32_t n;
	uint64_t next_id;
	uint64_t source;  /* id of the member whose weights are those of the group */
	char segment[64]; /* shared memory of the members, all on one machine; "": none */
	struct member member[GROUP_MAX];
};

/* The body of FRAME_JOIN. */
struct group_join {
	char version[32];                /* mltrain's */
	uint32_t options[GROUP_OPTIONS]; /* digests of what must be equal on all ranks */
	char data[72];
	struct member self;
};

/* The body of FRAME_REPORT and FRAME_REJOIN. */
struct group_report {
	uint64_t id;
	struct group_progress at;
	int32_t leaves;
	uint32_t generation; /* of the group that it knows */
};

/* Describe this process; its id is 0 until it joins. */
void group_describe_self(struct member *ret);

/* Make a digest of each option, in their order. */
void group_digest_options(const json_t *options, uint32_t ret[GROUP_OPTIONS]);

size_t group_size(const struct group *g);

/* Read the bodies of frames. They return 0, or -EPROTO for what no rank sends. */
int group_parse(const void *body, size_t size, struct group *ret, struct mlr_error *err);
int group_parse_join(const void *body, size_t size, struct group_join *ret, struct mlr_error *err);
int group_parse_report(
	const void *body, size_t size, struct group_report *ret, struct mlr_error *err);

/* Return the place of a member, or -1 for an unknown id. */
int group_find(const struct group *g, uint64_t id);

/*
 * Decide the next generation: the members of old that have reported and do not leave, then
 * newcomers while there are places.
 *
 *   reports   [old->n], those that are not there with id 0
 *   joiners   [n]; taken in their order
 *   max       ranks
 *
 * The source is the first of those that have come farthest. Returns how many joiners were taken;
 * ret has no segment.
 */
int group_next(const struct group *old, const struct group_report *reports,
	const struct member *joiners, int n, int max, struct group *ret);

/* Are they the same process? */
int group_is_same(const struct member *a, const struct member *b);

/* Are all members on one machine? */
int group_is_local(const struct group *g);

/* Divide a batch: the first row of a rank's share; rank = ranks gives batch. Shares differ by one
 * row at most. */
int group_first_row(int batch, int rank, int ranks);
