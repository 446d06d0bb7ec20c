/* Handles incoming connections while the rank trains. */
#include "dist/elastic_run.h"

#include "config.h"

#define FLAW 200 /* bytes of why a newcomer is refused */

void elastic_refuse(int fd, const char *why)
{
	frame_send(fd, FRAME_REFUSED, 0, why, strlen(why), 1000, NULL);
	close(fd);
}

static int has(const uint32_t v[GROUP_OPTIONS], uint32_t digest)
{
	for (size_t i = 0; i < GROUP_OPTIONS; i++)
		if (v[i] == digest)
			return 1;
	return 0;
}

/* Name the first option that differs from a newcomer's, wherever it stands there: some are left out
 * at their defaults. Returns it, or NULL: they are the same. */
static const char *find_option(
	const struct elastic *e, const uint32_t theirs[GROUP_OPTIONS], char words[FLAW])
{
	uint32_t own[GROUP_OPTIONS];
	const char *name;
	json_t *value;
	size_t n = 0;

	group_digest_options(e->options, own);
	json_object_foreach(e->options, name, value) {
		auto_free char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
		size_t i = n++ % GROUP_OPTIONS;

		if (has(theirs, own[i]))
			continue;
		snprintf(words, FLAW, "its options differ from the run's: the run's %s is %s", name,
			text && strlen(text) < FLAW / 2 ? text : "another one");
		return words;
	}
	for (size_t i = 0; i < GROUP_OPTIONS; i++)
		if (!has(own, theirs[i]))
			return "its options differ from the run's: it sets one that the run leaves at "
			       "its default";
	return NULL;
}

/* Find why a newcomer can't be a rank; NULL if it can. words may get the text. */
static const char *flaw_of(const struct elastic *e, const struct guest *g, char words[FLAW])
{
	struct group_join j;

	if (group_parse_join(g->body, g->first.size, &j, NULL) < 0 ||
		strcmp(j.version, PACKAGE_VERSION) != 0)
		return "it is of another version of mltrain than the run";
	if (strcmp(j.data, e->data) != 0)
		return "its data set differs from the run's";
	return find_option(e, j.options, words);
}

void elastic_receive_newcomers(struct elastic *e)
{
	struct guest g;
	struct frame f;

	for (int i = e->n_waiting; i-- > 0;) {
		if (frame_peek(e->waiting[i].fd, &f) == 0)
			continue;
		close(e->waiting[i].fd); /* it hung up, or sent an unexpected frame */
		e->n_waiting--;
		memmove(&e->waiting[i], &e->waiting[i + 1], (size_t)(e->n_waiting - i) * sizeof(g));
	}
	while (e->n_waiting < ELASTIC_WAITING && listener_take(e->listener, FRAME_JOIN, &g)) {
		char words[FLAW];
		const char *flaw = flaw_of(e, &g, words);

		if (flaw) {
			mlr_warning("--elastic: a newcomer was refused: %s", flaw);
			elastic_refuse(g.fd, flaw);
		} else {
			e->waiting[e->n_waiting++] = g;
		}
	}
}

int elastic_place_of(const struct elastic *e, const struct guest *g, struct group_report *ret)
{
	return group_parse_report(g->body, g->first.size, ret, NULL) < 0
		? -1
		: group_find(&e->group, ret->id);
}

/* Take a rank that considers this run's coordinator lost. */
static int take_left_out(struct elastic *e, struct guest *ret)
{
	return listener_take(e->listener, FRAME_REJOIN, ret) ||
		listener_take(e->listener, FRAME_WATCH, ret);
}

/* Guests that have hung up are dropped. */
void elastic_answer_left_out(struct elastic *e)
{
	struct guest g, keep[GROUP_MAX];
	struct group_report r;
	struct frame f;
	int n = 0;

	while (n < GROUP_MAX && take_left_out(e, &g)) {
		if (elastic_place_of(e, &g, &r) < 0)
			elastic_refuse(g.fd, ELASTIC_WITHOUT);
		else if (frame_peek(g.fd, &f) < 0)
			close(g.fd);
		else
			keep[n++] = g;
	}
	while (n > 0)
		listener_give(e->listener, &keep[--n]);
}

void elastic_tell_end(struct elastic *e)
{
	struct guest g;

	elastic_receive_newcomers(e);
	for (int i = 0; i < e->n_waiting; i++)
		elastic_tell(e, e->waiting[i].fd, FRAME_END, 1000);
	while (take_left_out(e, &g)) {
		elastic_tell(e, g.fd, FRAME_END, 1000);
		close(g.fd);
	}
}

int elastic_wants_change(struct dist *d)
{
	struct elastic *e = (struct elastic *)d;

	elastic_late_done(e);
	if (listener_has(e->listener, FRAME_REJOIN) || listener_has(e->listener, FRAME_WATCH))
		elastic_answer_left_out(e);
	if (d->rank != 0)
		return 0;
	if (listener_has(e->listener, FRAME_JOIN) || e->n_waiting)
		elastic_receive_newcomers(e);
	return e->n_waiting > 0 && d->ranks < e->o.max;
}
