/* Handles incoming connections while the rank trains. */
#include "dist/elastic_run.h"

#include "base/base.h"
#include "config.h"

void elastic_refuse(int fd, const char *why)
{
	frame_send(fd, FRAME_REFUSED, 0, why, strlen(why), 1000, NULL);
	close(fd);
}

/* Why a newcomer can't be a rank; NULL if it can. */
static const char *flaw_of(const struct elastic *e, const struct guest *g)
{
	struct group_join j;

	if (group_parse_join(g->body, g->first.size, &j, NULL) < 0 ||
		strcmp(j.version, PACKAGE_VERSION) != 0)
		return "it is of another version of mltrain than the run";
	if (strcmp(j.options, e->options) != 0)
		return "its options differ from the run's";
	if (strcmp(j.data, e->data) != 0)
		return "its data set differs from the run's";
	return NULL;
}

void elastic_receive_newcomers(struct elastic *e)
{
	struct guest g;
	struct frame f;

	for (int i = e->n_waiting; i-- > 0;) {
		if (frame_peek(e->waiting[i].fd, &f) == 0)
			continue;
		close(e->waiting[i].fd); /* gone, or it says what nobody asked for */
		e->n_waiting--;
		memmove(&e->waiting[i], &e->waiting[i + 1], (size_t)(e->n_waiting - i) * sizeof(g));
	}
	while (e->n_waiting < ELASTIC_WAITING && door_take(e->door, FRAME_JOIN, &g)) {
		const char *flaw = flaw_of(e, &g);

		if (flaw) {
			mlr_warning("--elastic: a newcomer was refused: %s", flaw);
			elastic_refuse(g.fd, flaw);
		} else {
			e->waiting[e->n_waiting++] = g;
		}
	}
}

/* The place of the rank that a guest is in this rank's group; -1: none. */
static int place_of(const struct elastic *e, const struct guest *g)
{
	struct group_report r;

	return group_parse_report(g->body, g->first.size, &r, NULL) < 0
		? -1
		: group_find(&e->group, r.id);
}

/* A guest who has gone is forgotten. */
void elastic_answer_left_out(struct elastic *e)
{
	static const enum frame_kind kinds[] = { FRAME_REJOIN, FRAME_WATCH };
	struct guest g, keep[GROUP_MAX];
	struct frame f;
	int n = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		while (n < GROUP_MAX && door_take(e->door, kinds[k], &g)) {
			if (place_of(e, &g) < 0)
				elastic_refuse(g.fd, ELASTIC_WITHOUT);
			else if (frame_peek(g.fd, &f) < 0)
				close(g.fd);
			else
				keep[n++] = g;
		}
	while (n > 0)
		door_give(e->door, &keep[--n]);
}

static void tell_end(const struct elastic *e, int fd)
{
	frame_send(fd, FRAME_END, e->group.generation, NULL, 0, 1000, NULL);
}

void elastic_tell_end(struct elastic *e)
{
	static const enum frame_kind kinds[] = { FRAME_REJOIN, FRAME_WATCH };
	struct guest g;

	elastic_receive_newcomers(e);
	for (int i = 0; i < e->n_waiting; i++)
		tell_end(e, e->waiting[i].fd);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		while (door_take(e->door, kinds[k], &g)) {
			tell_end(e, g.fd);
			close(g.fd);
		}
}

int elastic_wants_change(struct dist *d)
{
	struct elastic *e = (struct elastic *)d;

	if (door_has(e->door, FRAME_REJOIN) || door_has(e->door, FRAME_WATCH))
		elastic_answer_left_out(e);
	if (d->rank != 0)
		return 0;
	if (door_has(e->door, FRAME_JOIN) || e->n_waiting)
		elastic_receive_newcomers(e);
	return e->n_waiting > 0 && d->ranks < e->o.max;
}
