#include "dist/elastic_run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN_MS     100   /* between looks at signals */
#define CONNECT_MS  20000 /* for the ring */
#define TRIES       6     /* of connecting one group */
#define COMEBACK_MS 30000 /* for a newcomer whose coordinator is gone */
#define SEND_MS     30000

/* One call of elastic_regroup(). */
struct change {
	struct elastic *e;
	struct group_report mine;
	struct group_report reports[GROUP_MAX]; /* of the present group's members; id 0: none yet */
	int dead[GROUP_MAX];
	int watch[GROUP_MAX]; /* a connection that shows the end of a member that is to call; -1 */
	int is_orderly;       /* no rank was lost before: a coordinator that is gone has left */
	int joined, left, lost;
};

static int is_told_to_stop(const struct change *c)
{
	return c->e->o.stop && *c->e->o.stop;
}

static int place(const struct change *c)
{
	return group_find(&c->e->group, c->e->self.id);
}

static void hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int count(const int *flags)
{
	int n = 0;

	for (int i = 0; i < GROUP_MAX; i++)
		n += flags[i];
	return n;
}

/* --- the coordinator ----------------------------------------------------------------------- */

static void lose(struct change *c, int i)
{
	hang_up(&c->e->fd[i]);
	hang_up(&c->watch[i]);
	c->reports[i].id = 0;
	c->dead[i] = 1;
}

/* What a member sent before it reported belongs to a sum that no longer counts. */
static void hear_member(struct change *c, int i)
{
	struct elastic *e = c->e;
	struct group_report r;
	struct frame f;
	int n = frame_peek(e->fd[i], &f);

	if (n == 0)
		return;
	if (n < 0 || frame_recv_head(e->fd[i], UINT32_MAX, &f, SEND_MS, NULL) < 0) {
		lose(c, i);
		return;
	}
	if (f.kind != FRAME_REPORT || f.size != sizeof(r)) {
		if (frame_skip(e->fd[i], f.size, NULL) < 0)
			lose(c, i);
		return;
	}
	if (frame_recv_bytes(e->fd[i], &r, sizeof(r), SEND_MS, NULL) < 0 ||
		r.id != e->group.member[i].id)
		lose(c, i);
	else
		c->reports[i] = r;
}

static void refuse(int fd)
{
	static const char why[] = "the run went on without it, as its connection was lost";

	frame_send(fd, FRAME_REFUSED, 0, why, strlen(why), 1000, NULL);
	close(fd);
}

/* Members that have lost their coordinator call this one. */
static void take_callers(struct change *c)
{
	struct elastic *e = c->e;
	struct guest g;

	while (door_take(e->door, FRAME_REJOIN, &g)) {
		struct group_report r;
		int i = group_parse_report(g.body, g.first.size, &r, NULL) < 0
			? -1
			: group_find(&e->group, r.id);

		if (i < 0 || c->dead[i] || i == place(c)) {
			refuse(g.fd);
			continue;
		}
		hang_up(&e->fd[i]);
		hang_up(&c->watch[i]);
		e->fd[i] = g.fd;
		c->reports[i] = r;
	}
}

/* A member that comes as a newcomer has not heard that it is a member. */
static void forget_returned(struct change *c)
{
	struct elastic *e = c->e;

	for (int k = 0; k < e->n_waiting; k++) {
		struct group_join j;

		memcpy(&j, e->waiting[k].body, sizeof(j));
		for (uint32_t i = 0; i < e->group.n; i++) {
			const struct member *m = &e->group.member[i];

			if (m->pid == j.self.pid && m->offer.port == j.self.offer.port &&
				strcmp(m->host, j.self.host) == 0 && !c->dead[i])
				lose(c, (int)i);
		}
	}
}

/* Wait a turn for reports, callers and newcomers. */
static void listen_once(struct change *c)
{
	struct elastic *e = c->e;
	struct pollfd p[2 * GROUP_MAX + 1];
	int n = (int)e->group.n, me = place(c);

	for (int i = 0; i < n; i++) {
		p[2 * i] = (struct pollfd){ .fd = i == me ? -1 : e->fd[i], .events = POLLIN };
		p[2 * i + 1] = (struct pollfd){ .fd = c->watch[i], .events = POLLIN };
	}
	p[2 * n] = (struct pollfd){ .fd = door_fd(e->door), .events = POLLIN };
	if (poll(p, 2 * (nfds_t)n + 1, TURN_MS) < 0)
		return;
	if (p[2 * n].revents)
		door_seen(e->door);
	for (int i = 0; i < n; i++) {
		if (p[2 * i].revents)
			hear_member(c, i);
		if (p[2 * i + 1].revents && e->fd[i] < 0)
			lose(c, i);
	}
	take_callers(c);
	elastic_receive_newcomers(e);
	forget_returned(c);
}

static int staying(const struct change *c)
{
	int n = 0;

	for (uint32_t i = 0; i < c->e->group.n; i++)
		n += c->reports[i].id && !c->reports[i].leaves;
	return n;
}

static int all_reported(const struct change *c)
{
	for (uint32_t i = 0; i < c->e->group.n; i++)
		if (!c->reports[i].id && !c->dead[i])
			return 0;
	return 1;
}

/* Newcomers that there is a place for. */
static int admissible(const struct change *c)
{
	int places = c->e->o.max - staying(c);

	return c->e->n_waiting < places ? c->e->n_waiting : places < 0 ? 0 : places;
}

/* Wait for all members, and for enough ranks. Returns 0, or -EINTR if told to stop meanwhile. */
static int collect(struct change *c)
{
	int told = 0;

	elastic_receive_newcomers(c->e);
	while (!all_reported(c) || staying(c) + admissible(c) < c->e->o.min) {
		if (all_reported(c) && is_told_to_stop(c))
			return -EINTR;
		if (all_reported(c) && !told++)
			mlr_info("--elastic: waiting for %d of at least %d ranks",
				c->e->o.min - staying(c), c->e->o.min);
		listen_once(c);
	}
	return 0;
}

/* Make the memory that the ranks of one machine share. Returns its descriptor or -1. */
static int make_segment(struct group *g)
{
	char path[] = "/dev/shm/mltrain.XXXXXX";
	int fd;

	if (g->n < 2 || !group_is_local(g) || getenv("MLTRAIN_NO_SHARED_MEMORY"))
		return -1;
	fd = node_sums_segment(path, node_sums_size((int)g->n));
	if (fd >= 0)
		strcpy(g->segment, path);
	return fd;
}

/* The connections of the next group, by its ranks; others are told that they may leave. */
static void seat(struct change *c, const struct group *next, int taken)
{
	struct elastic *e = c->e;
	int fd[GROUP_MAX], first = (int)next->n - taken;

	for (int i = 0; i < GROUP_MAX; i++)
		fd[i] = -1;
	for (uint32_t i = 0; i < e->group.n; i++) {
		int to = group_find(next, e->group.member[i].id);

		if (to > 0) {
			fd[to] = take_fd(&e->fd[i]);
		} else if (e->fd[i] >= 0) {
			frame_send(e->fd[i], FRAME_BYE, next->generation, NULL, 0, SEND_MS, NULL);
			hang_up(&e->fd[i]);
		}
		hang_up(&c->watch[i]);
	}
	for (int k = 0; k < taken; k++)
		fd[first + k] = e->waiting[k].fd;
	e->n_waiting -= taken;
	memmove(e->waiting, e->waiting + taken, (size_t)e->n_waiting * sizeof(e->waiting[0]));
	memcpy(e->fd, fd, sizeof(fd));
}

/* Decide the next group and tell it. *segment gets a descriptor or -1. */
static int lead(struct change *c, int *segment)
{
	struct elastic *e = c->e;
	struct member joiners[ELASTIC_WAITING];
	struct group next;
	int was_led = c->is_orderly && place(c) > 0; /* by one that leaves */
	int taken, r;

	c->reports[place(c)] = c->mine;
	for (int i = 0; e->broken && i < (int)e->group.n; i++)
		if (e->fd[i] >= 0)
			frame_send(
				e->fd[i], FRAME_BROKEN, e->group.generation, NULL, 0, 1000, NULL);
	r = collect(c);
	if (r < 0)
		return r;
	for (int i = 0; i < e->n_waiting; i++) {
		struct group_join j;

		memcpy(&j, e->waiting[i].body, sizeof(j));
		joiners[i] = j.self;
	}
	taken = group_next(&e->group, c->reports, joiners, e->n_waiting, e->o.max, &next);
	c->joined += taken;
	c->lost += count(c->dead) - was_led;
	c->left += (int)e->group.n - count(c->dead) - ((int)next.n - taken) + was_led;
	c->is_orderly = 0;
	*segment = make_segment(&next);
	seat(c, &next, taken);
	e->group = next;
	for (int i = 1; i < (int)next.n; i++) /* who can't be told is found lost soon */
		frame_send(e->fd[i], FRAME_GROUP, next.generation, &next, group_size(&next),
			SEND_MS, NULL);
	return 0;
}

/* --- the others ---------------------------------------------------------------------------- */

/* What the coordinator has said. */
enum word { WORD_GROUP, WORD_BYE, WORD_END, WORD_LOST, WORD_STOP };

static int hear_group(struct change *c, size_t size, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct group g;
	char body[sizeof(g)];
	int r = frame_recv_bytes(e->fd[0], body, size, SEND_MS, err);

	if (r == 0)
		r = group_parse(body, size, &g, err);
	for (uint32_t i = 0; r == 0 && e->self.id == 0 && i < g.n; i++)
		if (g.member[i].pid == e->self.pid &&
			g.member[i].offer.port == e->self.offer.port &&
			strcmp(g.member[i].host, e->self.host) == 0)
			e->self.id = g.member[i].id;
	if (r == 0 && group_find(&g, e->self.id) < 0)
		return mlr_fail(err, EPROTO, "a list of ranks without this one");
	if (r == 0)
		e->group = g;
	return r;
}

static int hear_refusal(struct change *c, size_t size, struct mlr_error *err)
{
	char why[256] = "";

	size = size < sizeof(why) - 1 ? size : sizeof(why) - 1;
	frame_recv_bytes(c->e->fd[0], why, size, SEND_MS, NULL);
	return mlr_fail(err, c->e->self.id ? ESTALE : EPROTO,
		"--elastic %s: this rank was refused: %s", c->e->o.where, why);
}

/* Wait for the coordinator's word. A rank that is told to stop reports anew, unless it comes as a
 * newcomer, which just goes. */
static int listen_to_coordinator(struct change *c, enum word *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;

	for (;;) {
		struct pollfd p = { .fd = e->fd[0], .events = POLLIN };
		struct frame f = { 0 };
		int r;

		if (is_told_to_stop(c) && !c->mine.leaves) {
			*ret = WORD_STOP;
			return 0;
		}
		r = poll(&p, 1, TURN_MS);
		if (r <= 0)
			continue;
		r = frame_peek(e->fd[0], &f);
		if (r == 0)
			continue;
		*ret = WORD_LOST;
		if (r < 0 || frame_recv_head(e->fd[0], UINT32_MAX, &f, SEND_MS, NULL) < 0)
			return 0;
		switch (f.kind) {
		case FRAME_GROUP:
			*ret = WORD_GROUP;
			return f.size <= sizeof(struct group)
				? hear_group(c, f.size, err)
				: mlr_fail(err, EPROTO, "a list of ranks that is too long");
		case FRAME_REFUSED:
			return hear_refusal(c, f.size, err);
		case FRAME_BYE:
			*ret = WORD_BYE;
			return 0;
		case FRAME_END:
			*ret = WORD_END;
			return 0;
		default: /* of a sum that no longer counts */
			if (frame_skip(e->fd[0], f.size, NULL) < 0)
				return 0;
		}
	}
}

/* Find the oldest member that answers, and report to it. Returns 1 if that is this one. */
static int elect(struct change *c)
{
	struct elastic *e = c->e;
	int me = place(c);

	for (int i = 0; i < me; i++) {
		int fd = elastic_call(e, &e->group.member[i], NULL);

		if (fd < 0 ||
			frame_send(fd, FRAME_REJOIN, e->group.generation, &c->mine, sizeof(c->mine),
				SEND_MS, NULL) < 0) {
			hang_up(&fd);
			c->dead[i] = 1;
			continue;
		}
		c->dead[i] = 0;
		e->fd[0] = fd;
		return 0;
	}
	if (c->mine.leaves && me + 1 < (int)e->group.n)
		return 0;
	for (int i = me + 1; i < (int)e->group.n; i++) {
		c->watch[i] = elastic_call(e, &e->group.member[i], NULL);
		if (c->watch[i] < 0 ||
			frame_send(c->watch[i], FRAME_WATCH, e->group.generation, NULL, 0, SEND_MS,
				NULL) < 0)
			lose(c, i);
	}
	elastic_publish(e); /* newcomers that have lost the coordinator look there */
	return 1;
}

/* The run of a newcomer's rendezvous file, or address. Returns 1, 0 if it is over, -errno. */
static int call_run(struct change *c, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int64_t end = mlr_now_ms() + COMEBACK_MS;

	for (;;) {
		int r = 0;

		if (!elastic_is_address(e->o.where)) {
			r = rendezvous_read(e->o.where, &e->file, err);
			if (r == -ENOENT)
				return 0;
		}
		if (r == 0)
			r = elastic_call(e, &e->file.coordinator, err);
		if (r >= 0) {
			e->fd[0] = r;
			return 1;
		}
		if (mlr_now_ms() > end || is_told_to_stop(c))
			return mlr_wrap(err, "--elastic %s", e->o.where);
		poll(NULL, 0, 2 * TURN_MS);
	}
}

static int join(struct change *c, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct group_join j = { .self = e->self };
	int r = call_run(c, err);

	if (r <= 0)
		return r;
	snprintf(j.version, sizeof(j.version), "%s", PACKAGE_VERSION);
	memcpy(j.options, e->options, sizeof(j.options));
	memcpy(j.data, e->data, sizeof(j.data));
	if (frame_send(e->fd[0], FRAME_JOIN, 0, &j, sizeof(j), SEND_MS, NULL) < 0)
		hang_up(&e->fd[0]);
	return 1;
}

/* Returns 0 with an outcome; 1: this rank is the coordinator now. */
static int follow(struct change *c, enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int is_new = e->group.n == 0, r;
	enum word word;

	if (!is_new && e->fd[0] >= 0 &&
		frame_send(e->fd[0], FRAME_REPORT, e->group.generation, &c->mine, sizeof(c->mine),
			SEND_MS, NULL) < 0)
		hang_up(&e->fd[0]);
	for (;;) {
		if (e->fd[0] < 0) {
			r = is_new ? join(c, err) : elect(c);
			if (r < 0 || (r > 0 && !is_new))
				return r;
			*ret = is_new ? ELASTIC_OVER : ELASTIC_LEFT;
			if (is_new ? r == 0 : e->fd[0] < 0)
				return 0;
			continue;
		}
		word = WORD_LOST;
		r = listen_to_coordinator(c, &word, err);
		if (r < 0)
			return r;
		switch (word) {
		case WORD_GROUP:
			*ret = ELASTIC_MEMBER;
			return 0;
		case WORD_END:
			*ret = ELASTIC_OVER;
			return 0;
		case WORD_BYE:
			*ret = ELASTIC_LEFT;
			return 0;
		case WORD_STOP:
			*ret = ELASTIC_LEFT;
			if (is_new)
				return 0;
			c->mine.leaves = 1;
			if (frame_send(e->fd[0], FRAME_REPORT, e->group.generation, &c->mine,
				    sizeof(c->mine), SEND_MS, NULL) == 0)
				break;
			/* fall through */
		case WORD_LOST:
			hang_up(&e->fd[0]);
			if (is_new)
				poll(NULL, 0, TURN_MS);
		}
	}
}

/* --- connecting ---------------------------------------------------------------------------- */

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
		if (poll(&p, 1, TURN_MS / 2) > 0)
			door_seen(e->door);
	}
	return elastic_break(e, err);
}

static int connect_ring(struct elastic *e, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int next = (e->dist.rank + 1) % e->dist.ranks, from = -1, r;
	int to = elastic_call(e, &g->member[next], err);

	if (to < 0 || frame_send(to, FRAME_RING, g->generation, NULL, 0, SEND_MS, NULL) < 0) {
		mlr_warning(
			"--elastic: rank %d on '%s' can't be reached", next, g->member[next].host);
		hang_up(&to);
		return elastic_break(e, err);
	}
	r = await_predecessor(e, &from, err);
	if (r < 0) {
		close(to);
		return r;
	}
	e->ring = ring_sums_new(to, from, e->dist.rank, e->dist.ranks);
	return 0;
}

/* Members of the new group that called as if they had lost its coordinator were not lost. Others
 * were. */
static void clear_door(struct elastic *e)
{
	struct guest g, keep[GROUP_MAX];
	int n = 0;

	while (door_take(e->door, FRAME_WATCH, &g))
		close(g.fd);
	while (e->dist.rank != 0 && n < GROUP_MAX && door_take(e->door, FRAME_REJOIN, &g))
		keep[n++] = g;
	for (int i = 0; i < n; i++) {
		struct group_report r;

		if (group_parse_report(keep[i].body, keep[i].first.size, &r, NULL) < 0 ||
			group_find(&e->group, r.id) < 0)
			refuse(keep[i].fd);
		else
			door_give(e->door, &keep[i]);
	}
}

static int connect_group(struct elastic *e, int segment, struct mlr_error *err)
{
	const struct sums_by node = { e, add_to_node, advance_node, elastic_idle };
	const struct sums_by ring = { e, add_to_ring, advance_ring, elastic_idle };
	struct dist *d = &e->dist;
	int r = 0;

	d->rank = d->exchange.rank = group_find(&e->group, e->self.id);
	d->ranks = d->exchange.ranks = (int)e->group.n;
	e->broken = 0;
	clear_door(e);
	if (d->ranks == 1)
		return 0;
	r = connect_node(e, segment, err);
	if (r == 0 && !e->node)
		r = connect_ring(e, err);
	if (r == 0)
		e->sums = sums_new(e->node ? &node : &ring);
	return r;
}

/* --- the change ---------------------------------------------------------------------------- */

/* Forget the group's other ranks, so that they go on without this one at once. */
static void leave(struct elastic *e)
{
	door_close(&e->door);
	for (int i = 0; i < GROUP_MAX; i++)
		hang_up(&e->fd[i]);
	for (int i = 0; i < e->n_waiting; i++)
		close(e->waiting[i].fd);
	e->n_waiting = 0;
	e->has_file = 0;
}

/* The run is this process alone. */
static void be_alone(struct elastic *e)
{
	for (int i = 0; i < GROUP_MAX; i++)
		hang_up(&e->fd[i]);
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
		if (i != place(c) && c->reports[i].id)
			return 1;
	return 0;
}

/* Returns 0 with an outcome. */
static int agree(struct change *c, int *segment, enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int is_first = e->group.n && place(c) == 0, r;

	if (is_first && c->mine.leaves && e->group.n > 1) { /* the next oldest leads */
		*ret = ELASTIC_LEFT;
		return 0;
	}
	if (!is_first) {
		r = follow(c, ret, err);
		if (r <= 0)
			return r;
		if (c->mine.leaves) { /* with the others, so nobody is left to go on */
			*ret = ELASTIC_STOPPED;
			return 0;
		}
	}
	*ret = ELASTIC_MEMBER;
	r = lead(c, segment);
	if (r == -EINTR) {
		*ret = has_others(c) ? ELASTIC_LEFT : ELASTIC_STOPPED;
		r = 0;
	}
	return r;
}

/* What is known of the members does not outlast a group. */
static void begin(struct change *c)
{
	memset(c->reports, 0, sizeof(c->reports));
	memset(c->dead, 0, sizeof(c->dead));
	c->mine.id = c->e->self.id;
	c->mine.generation = c->e->group.generation;
	elastic_drop_sums(c->e);
}

int elastic_regroup(struct dist *d, const struct group_progress *at, int leaves,
	enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = (struct elastic *)d;
	struct change c = {
		.e = e, .mine = { .at = *at, .leaves = leaves }, .is_orderly = !e->broken
	};
	int r;

	for (int i = 0; i < GROUP_MAX; i++)
		c.watch[i] = -1;
	for (int tries = 0; tries < TRIES; tries++) {
		int segment = -1;

		begin(&c);
		r = agree(&c, &segment, ret, err);
		if (r == 0 && *ret == ELASTIC_MEMBER)
			r = connect_group(e, segment, err);
		else if (segment >= 0)
			close(segment);
		if (r == -EIO && e->broken)
			continue;
		for (int i = 0; i < GROUP_MAX; i++)
			hang_up(&c.watch[i]);
		if (r == 0 && *ret == ELASTIC_STOPPED)
			be_alone(e);
		else if (r < 0 || *ret != ELASTIC_MEMBER)
			leave(e);
		e->change =
			(struct elastic_change){ e->group.generation, c.joined, c.left, c.lost };
		return r;
	}
	mlr_fail(err, EIO, "--elastic: the ranks can't connect to one another");
	return mlr_hint(err,
		"each rank must reach each other one on any port: look at firewalls between the "
		"nodes");
}
