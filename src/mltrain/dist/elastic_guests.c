/* Who comes to the door of a rank while it trains. */
#include "dist/elastic_run.h"

#include "base/log.h"
#include "config.h"

#include <string.h>
#include <unistd.h>

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

int elastic_wants_change(struct dist *d)
{
	struct elastic *e = (struct elastic *)d;

	if (d->rank != 0)
		return 0;
	if (door_has(e->door, FRAME_JOIN) || e->n_waiting)
		elastic_receive_newcomers(e);
	return e->n_waiting > 0 && d->ranks < e->o.max;
}
