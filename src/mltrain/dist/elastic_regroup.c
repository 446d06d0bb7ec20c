#include "dist/elastic_run.h"

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
		elastic_hang_up(&e->fd[i]);
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
			r = elastic_connect(e, segment, err);
		else if (segment >= 0)
			close(segment);
		if (r == -EIO && e->broken)
			continue;
		for (int i = 0; i < GROUP_MAX; i++)
			elastic_hang_up(&c.watch[i]);
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
