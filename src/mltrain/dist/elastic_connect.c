/* The connections of a new generation: what sums its gradients. */
#include "dist/elastic_change.h"

#include "base/base.h"

#include <poll.h>

#define CONNECT_MS 20000 /* for the ring */

static int add_to_node(void *ctx, float *x, size_t n, struct mlr_error *err)
{
	(void)err;
	node_sums_add(((struct elastic *)ctx)->node, x, n);
	return 0;
}

static int advance_node(void *ctx, struct mlr_error *err)
{
	return node_sums_advance(((struct elastic *)ctx)->node, err);
}

static int add_to_ring(void *ctx, float *x, size_t n, struct mlr_error *err)
{
	(void)err;
	ring_sums_add(((struct elastic *)ctx)->ring, x, n);
	return 0;
}

static int advance_ring(void *ctx, struct mlr_error *err)
{
	return ring_sums_advance(((struct elastic *)ctx)->ring, err);
}

/* Share memory, if all ranks can. The sum is also where all wait for one another. */
static int connect_node(struct elastic *e, int segment, struct mlr_error *err)
{
	int ranks = e->dist.ranks, r;
	auto_close int fd = segment;
	double have;

	if (fd < 0 && e->group.segment[0])
		fd = node_sums_segment_of(e->group.segment, node_sums_size(ranks));
	if (fd >= 0)
		e->node = node_sums_new(fd, e->dist.rank, ranks, NULL);
	have = e->node != NULL;
	r = elastic_sum(e, &have, 1, err);
	if (e->group.segment[0]) /* whoever is left removes the name */
		unlink(e->group.segment);
	if (r == 0 && have < ranks)
		node_sums_free(&e->node);
	return r;
}

/* Wait for the predecessor at the door. Guests of older generations have given up. */
static int await_predecessor(struct elastic *e, int *ret, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + CONNECT_MS;
	struct guest g;

	while (mlr_now_ms() < end) {
		struct pollfd p = { .fd = door_fd(e->door), .events = POLLIN };
		int r;

		while (door_take(e->door, FRAME_RING, &g)) {
			if (g.first.generation == e->group.generation) {
				*ret = g.fd;
				return 0;
			}
			close(g.fd);
		}
		r = elastic_look(e, err);
		if (r < 0)
			return r;
		if (poll(&p, 1, CHANGE_TURN_MS / 2) > 0)
			door_seen(e->door);
	}
	return elastic_break(e, (e->dist.rank + e->dist.ranks - 1) % e->dist.ranks, err);
}

static int connect_ring(struct elastic *e, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int next = (e->dist.rank + 1) % e->dist.ranks, from = -1, r;
	int to = elastic_call(e, &g->member[next], err);

	if (to < 0 ||
		frame_send(to, FRAME_RING, g->generation, NULL, 0, CHANGE_SEND_MS, NULL) < 0) {
		mlr_warning(
			"--elastic: rank %d on '%s' can't be reached", next, g->member[next].host);
		elastic_hang_up(&to);
		return elastic_break(e, next, err);
	}
	r = await_predecessor(e, &from, err);
	if (r < 0) {
		close(to);
		return r;
	}
	e->ring = ring_sums_new(to, from, e->dist.rank, e->dist.ranks);
	return 0;
}

/* Connections from watchers of an older generation are closed. */
static void clear_door(struct elastic *e)
{
	struct guest g;

	elastic_answer_left_out(e);
	while (door_take(e->door, FRAME_WATCH, &g))
		close(g.fd);
}

int change_connect(struct elastic *e, int segment, struct mlr_error *err)
{
	const struct sums_by node = { e, add_to_node, advance_node, elastic_idle };
	const struct sums_by ring = { e, add_to_ring, advance_ring, elastic_idle };
	struct dist *d = &e->dist;
	int r = 0;

	d->rank = d->exchange.rank = group_find(&e->group, e->self.id);
	d->ranks = d->exchange.ranks = (int)e->group.n;
	e->broken = 0;
	clear_door(e);
	if (d->ranks == 1) {
		memset(e->heard_ms, 0, sizeof(e->heard_ms));
		return 0;
	}
	r = connect_node(e, segment, err);
	if (r == 0 && !e->node)
		r = connect_ring(e, err);
	if (r == 0)
		e->sums = sums_new(e->node ? &node : &ring);
	return r;
}
