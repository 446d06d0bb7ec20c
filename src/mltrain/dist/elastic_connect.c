/* Calls from one rank to another, the connections of a new generation, and the way there. */
#include "dist/elastic_run.h"

#include <poll.h>

#define CONNECT_MS 20000 /* for the ring */

int elastic_is_local_failure(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM ||
		code == EAGAIN;
}

static int call_at(
	struct elastic *e, const struct in6_addr *at, uint32_t port, int ms, struct mlr_error *err)
{
	auto_close int fd = lifeline_connect(at, port);

	if (fd < 0)
		return mlr_fail(err, elastic_is_local_failure(errno) ? errno : EHOSTUNREACH,
			"connect: %s", strerror(errno));
	lifeline_keep(fd);
	TRY(secret_call(fd, &e->secret, ms, err));
	return take_fd(&fd);
}

/* Try the loopback first on this machine: it needs no network, and who listens there and does not
 * answer will not do so at another address. Skip addresses that both machines
 * have, such as a bridge's: they lead back here. */
int elastic_call(struct elastic *e, const struct member *to, int ms, struct mlr_error *err)
{
	static const struct in6_addr loopback = { .s6_addr = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	int is_here = to->boot[0] && strcmp(to->boot, e->self.boot) == 0;
	int r = mlr_fail(err, EHOSTUNREACH, "'%s' has no address", to->host), at;

	if (is_here) {
		r = call_at(e, &loopback, to->offer.port, ms, err);
		if (r != -EHOSTUNREACH)
			return r;
	}
	for (uint32_t i = 0; i < to->offer.addresses; i++) {
		if (!is_here && to->boot[0] &&
			lifeline_is_own(&to->offer.address[i], &e->self.offer))
			continue;
		at = call_at(e, &to->offer.address[i], to->offer.port, ms,
			r == -EHOSTUNREACH ? err : NULL);
		if (at >= 0)
			return at;
		if (r == -EHOSTUNREACH) /* the failure of an address that answered counts more */
			r = at;
	}
	return r;
}

/* --- a new generation --- */

/* Share memory, if all ranks can. The sum also makes all wait for one another. */
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
	if (e->group.segment[0]) /* every rank that is left tries to remove the name */
		unlink(e->group.segment);
	if (r == 0 && have < ranks)
		node_sums_free(&e->node);
	return r;
}

/* Wait for the predecessor's call. Guests of older generations have given up. */
static int await_predecessor(struct elastic *e, int *ret, struct mlr_error *err)
{
	int64_t begin = mlr_now_ms();
	struct guest g;

	while (mlr_now_ms() - begin < CONNECT_MS) {
		struct pollfd p = { .fd = listener_fd(e->listener), .events = POLLIN };

		while (listener_take(e->listener, FRAME_RING, &g)) {
			if (g.first.generation == e->group.generation) {
				*ret = g.fd;
				return 0;
			}
			close(g.fd);
		}
		TRY(elastic_look(e, err));
		TRY(elastic_turn(e, begin, err));
		if (poll(&p, 1, CHANGE_TURN_MS / 2) > 0)
			listener_seen(e->listener);
	}
	return elastic_break(e, (e->dist.rank + e->dist.ranks - 1) % e->dist.ranks, err);
}

static int connect_ring(struct elastic *e, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int next = (e->dist.rank + 1) % e->dist.ranks, from = -1, r;
	int to = elastic_call(e, &g->member[next], ELASTIC_CALL_MS, err);

	if (to < 0 || elastic_tell(e, to, FRAME_RING, CHANGE_SEND_MS) < 0) {
		mlr_warning(
			"--elastic: rank %d on '%s' can't be reached", next, g->member[next].host);
		fd_close(&to);
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
static void close_old_watchers(struct elastic *e)
{
	struct guest g;

	elastic_answer_left_out(e);
	while (listener_take(e->listener, FRAME_WATCH, &g))
		close(g.fd);
}

/* This rank's place among those on its machine, whose GPUs they share. */
static int local_rank(const struct elastic *e)
{
	int n = 0;

	for (int i = 0; i < e->dist.rank; i++)
		n += strcmp(e->group.member[i].boot, e->self.boot) == 0;
	return n;
}

/* Connect the ranks of the new group. segment is taken. Returns 0, or -EIO if one was lost. */
static int connect_all(struct elastic *e, int segment, struct mlr_error *err)
{
	struct dist *d = &e->dist;

	d->rank = d->exchange.rank = group_find(&e->group, e->self.id);
	d->ranks = d->exchange.ranks = (int)e->group.n;
	d->exchange.local_rank = local_rank(e);
	e->broken = e->leader = 0;
	memset(e->said, 0, sizeof(e->said));
	memset(e->lost, 0, sizeof(e->lost));
	close_old_watchers(e);
	if (d->ranks == 1) {
		memset(e->heard_ms, 0, sizeof(e->heard_ms));
		return 0;
	}
	TRY(connect_node(e, segment, err));
	if (!e->node)
		TRY(connect_ring(e, err));
	e->sums = sums_new(e->node ? &(struct sums_by){ e->node, node_sums_add, node_sums_advance,
					     e, elastic_idle }
				   : &(struct sums_by){ e->ring, ring_sums_add, ring_sums_advance,
					     e, elastic_idle });
	return 0;
}

/* --- elastic_regroup(): the steps of a change -------------------------------------------- */

#define TRIES 6 /* of connecting one group */

int elastic_is_stopping(const struct change *c)
{
	return c->e->o.stop && *c->e->o.stop;
}

int elastic_own_place(const struct change *c)
{
	return group_find(&c->e->group, c->e->self.id);
}

/* Make this process the run's only rank. */
static void be_alone(struct elastic *e)
{
	for (int i = 0; i < GROUP_MAX; i++)
		fd_close(&e->fd[i]);
	e->group.n = 1;
	e->group.member[0] = e->self;
	e->group.source = e->self.id;
	e->dist.rank = e->dist.exchange.rank = 0;
	e->dist.ranks = e->dist.exchange.ranks = 1;
	e->broken = 0;
}

static int has_others(const struct change *c)
{
	for (int i = 0; i < (int)c->e->group.n; i++)
		if (i != elastic_own_place(c) && c->reports[i].id)
			return 1;
	return 0;
}

/* Agree on the next group. Returns 0 with an outcome. */
static int agree(struct change *c, int *segment, enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int is_first = e->group.n && elastic_own_place(c) == 0, r;

	if (is_first && c->mine.leaves && elastic_has_heir(c)) {
		*ret = ELASTIC_LEFT;
		return 0;
	}
	if (!is_first) {
		r = elastic_follow(c, ret, err);
		if (r <= 0)
			return r;
		if (c->mine.leaves) { /* the others leave too: nobody goes on */
			*ret = ELASTIC_STOPPED;
			return 0;
		}
	}
	*ret = ELASTIC_MEMBER;
	r = elastic_lead(c, segment, err);
	if (r != -EINTR)
		return r;
	*ret = has_others(c) ? ELASTIC_LEFT : ELASTIC_STOPPED;
	return 0;
}

/* Forget what was known of the members of the former group. */
static void begin(struct change *c)
{
	memset(c->reports, 0, sizeof(c->reports));
	memset(c->dead, 0, sizeof(c->dead));
	memset(c->e->lost, 0, sizeof(c->e->lost));
	memset(c->told, 0, sizeof(c->told));
	c->is_orderly = !c->e->broken;
	c->mine.id = c->e->self.id;
	c->mine.generation = c->e->group.generation;
	elastic_drop_sums(c->e);
}

int elastic_regroup(struct dist *d, const struct group_progress *at, int leaves,
	enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = (struct elastic *)d;
	struct change c = { .e = e, .mine = { .at = *at, .leaves = leaves } };
	int r;

	for (int i = 0; i < GROUP_MAX; i++)
		c.watch[i] = -1;
	for (int tries = 0; tries < TRIES; tries++) {
		int segment = -1;

		begin(&c);
		r = agree(&c, &segment, ret, err);
		if (r == 0 && *ret == ELASTIC_MEMBER)
			r = connect_all(e, segment, err);
		else if (segment >= 0)
			close(segment);
		if (r == -EIO && e->broken)
			continue;
		for (int i = 0; i < GROUP_MAX; i++)
			fd_close(&c.watch[i]);
		if (r == 0 && *ret == ELASTIC_STOPPED)
			be_alone(e);
		else if (r < 0 || *ret != ELASTIC_MEMBER) {
			elastic_hang_up_all(e); /* the others go on at once */
			e->has_file = e->broken = 0;
		}
		if (r == 0 && *ret == ELASTIC_MEMBER && d->rank == 0 && c.lost)
			elastic_publish(e); /* a rank taken for lost sees the generation */
		e->change =
			(struct elastic_change){ e->group.generation, c.joined, c.left, c.lost };
		return r;
	}
	mlr_fail(err, EIO, "--elastic: the ranks can't connect to one another");
	return mlr_hint(err,
		"every rank must reach every other one on any port: check the firewalls between "
		"the nodes");
}
