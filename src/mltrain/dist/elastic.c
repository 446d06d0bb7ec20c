#include "dist/elastic_run.h"

#include <sched.h>

#define SPINS      1000  /* turns of waiting before the CPU is yielded */
#define RING_SPINS 4     /* the same for a ring, whose turns are system calls */
#define LOOK_MASK  0x3fu /* turns between looks at the star, then */

static struct elastic *own(struct dist *d)
{
	return (struct elastic *)d;
}

static const struct elastic *own_const(const struct dist *d)
{
	return (const struct elastic *)d;
}

/* --- what struct dist provides ------------------------------------------------------------- */

static int barrier(struct dist *d, struct mlr_error *err)
{
	double nothing = 0;

	return elastic_sum(d, &nothing, 1, err);
}

static void ready(void *ctx, float *part, size_t count)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_ready(e->sums, part, count);
}

static void poll_sums(void *ctx)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_poll(e->sums);
}

static int wait_sums(void *ctx, struct mlr_error *err)
{
	struct elastic *e = ctx;
	struct mlr_error why = MLR_ERROR_INIT;

	if (!e->sums || (!e->broken && sums_wait(e->sums, &why) == 0))
		return 0;
	return elastic_break(e, -1, err);
}

int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (++*turns == 1)
		e->idle_since = mlr_now_ms();
	if (e->ring && *turns > RING_SPINS)
		ring_sums_sleep(e->ring, 1);
	else if (!e->ring && *turns > SPINS)
		sched_yield();
	else
		return 0;
	if (*turns & LOOK_MASK)
		return 0;
	TRY(elastic_turn(e, e->idle_since, err));
	return elastic_look(e, err);
}

static void lost(void *ctx)
{
	elastic_break(ctx, -1, NULL);
}

void elastic_hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void elastic_hang_up_all(struct elastic *e)
{
	listener_close(&e->listener);
	for (int i = 0; i < GROUP_MAX; i++)
		elastic_hang_up(&e->fd[i]);
	while (e->n_waiting > 0)
		close(e->waiting[--e->n_waiting].fd);
}

int elastic_tell(const struct elastic *e, int fd, enum frame_kind kind, int timeout_ms)
{
	return frame_send(fd, kind, e->group.generation, NULL, 0, timeout_ms, NULL);
}

void elastic_drop_sums(struct elastic *e)
{
	sums_free(&e->sums);
	node_sums_free(&e->node);
	ring_sums_free(&e->ring);
}

/* --- opening and closing ------------------------------------------------------------------- */

static void close_elastic(struct dist *d)
{
	struct elastic *e = own(d);

	elastic_drop_sums(e);
	elastic_late_done(e);
	elastic_hang_up_all(e);
	frame_wait_by(NULL, NULL);
	json_decref(e->options);
	if (e->has_file && d->ranks == 1)
		rendezvous_remove(e->o.where, &e->file);
	free(e);
}

/* Do nothing: the other ranks go on. */
static void abort_elastic(struct dist *d, int status)
{
}

static const struct dist_ops ops = { elastic_gather, barrier, close_elastic, abort_elastic };

int elastic_open(const struct elastic_options *o, struct dist **ret, struct mlr_error *err)
{
	struct elastic *e = xcalloc(1, sizeof(*e));
	int r;

	e->o = *o;
	e->dist = (struct dist){ .name = "elastic",
		.ranks = 1,
		.local_ranks = 1,
		.elastic = 1,
		.ops = &ops,
		.exchange = { .ranks = 1,
			.ctx = e,
			.ready = ready,
			.poll = poll_sums,
			.wait = wait_sums,
			.sum = elastic_sum,
			.broadcast = elastic_broadcast,
			.idle = elastic_idle,
			.lost = lost,
			.local_ranks = 1 } };
	for (int i = 0; i < GROUP_MAX; i++)
		e->fd[i] = -1;
	group_describe_self(&e->self);
	frame_wait_by(elastic_turn, e);
	r = elastic_meet(e, err);
	if (r < 0) {
		e->has_file = 0;
		close_elastic(&e->dist);
		return r;
	}
	*ret = &e->dist;
	return 0;
}

int elastic_is_newcomer(const struct dist *d)
{
	return d && d->elastic && own_const(d)->group.n == 0;
}

int elastic_most(const struct dist *d)
{
	return own_const(d)->o.max;
}

void elastic_say_options(struct dist *d, const json_t *options, const char *data)
{
	struct elastic *e = own(d);

	e->options = json_deep_copy(options);
	snprintf(e->data, sizeof(e->data), "%s", data);
}

int elastic_is_broken(const struct dist *d)
{
	return d && d->elastic && own_const(d)->broken;
}

struct elastic_change elastic_latest(const struct dist *d)
{
	return own_const(d)->change;
}

int elastic_must_share(const struct dist *d)
{
	const struct group *g = &own_const(d)->group;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->member[i].needs)
			return 1;
	return 0;
}

int elastic_needs(const struct dist *d)
{
	return own_const(d)->group.member[d->rank].needs;
}

/* --- the end ------------------------------------------------------------------------------- */

int elastic_finish(struct dist *d, struct mlr_error *err)
{
	struct elastic *e = own(d);
	struct frame f;

	if (d->rank != 0) {
		if (frame_recv_head(e->fd[0], 0, &f, -1, NULL) == 0 && f.kind == FRAME_END)
			return 0;
		return elastic_break(e, 0, err);
	}
	for (int i = 1; i < d->ranks; i++)
		elastic_tell(e, e->fd[i], FRAME_END, 1000);
	elastic_tell_end(e);
	if (e->has_file)
		rendezvous_remove(e->o.where, &e->file);
	e->has_file = 0;
	return 0;
}
