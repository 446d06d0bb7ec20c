/* Incoming connections, and the coordinator's part in a change of the group. */
#include "config.h"
#include "dist/elastic_run.h"

#include <poll.h>

/* --- who connects while the rank trains -------------------------------------------------- */

#define FLAW 200 /* bytes of why a newcomer is refused */

/* Why a process is refused that was a member once. */
#define WITHOUT "the run went on without it, as its connection was lost"

/* Tell a caller why it is refused, and hang up. */
static void refuse(int fd, const char *why)
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

/* On rank 0 accept newcomers from the listener, and forget those that have gone. */
static void receive_newcomers(struct elastic *e)
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
			refuse(g.fd, flaw);
		} else {
			e->waiting[e->n_waiting++] = g;
		}
	}
}

/* Read a guest's report. Returns its place in this rank's group, or -1. */
static int place_of(const struct elastic *e, const struct guest *g, struct group_report *ret)
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
		if (place_of(e, &g, &r) < 0)
			refuse(g.fd, WITHOUT);
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

	receive_newcomers(e);
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
		receive_newcomers(e);
	return e->n_waiting > 0 && d->ranks < e->o.max;
}

/* --- a change of the group --------------------------------------------------------------- */

static int count(const int *flags)
{
	int n = 0;

	for (int i = 0; i < GROUP_MAX; i++)
		n += flags[i];
	return n;
}

void elastic_lose(struct change *c, int i)
{
	fd_close(&c->e->fd[i]);
	fd_close(&c->watch[i]);
	c->reports[i].id = 0;
	c->dead[i] = 1;
	c->e->lost[i] = 1;
}

/* Discard what a member sent before its report: it belongs to an abandoned sum. */
static void hear_member(struct change *c, int i)
{
	struct elastic *e = c->e;
	struct group_report r;
	struct frame f;
	int n = frame_peek(e->fd[i], &f);

	if (n == 0)
		return;
	if (n < 0 || frame_recv_head(e->fd[i], UINT32_MAX, &f, CHANGE_SEND_MS, NULL) < 0) {
		elastic_lose(c, i);
		return;
	}
	if (f.kind != FRAME_REPORT || f.size != sizeof(r)) {
		if (frame_skip(e->fd[i], f.size, NULL) < 0)
			elastic_lose(c, i);
		return;
	}
	if (frame_recv_bytes(e->fd[i], &r, sizeof(r), CHANGE_SEND_MS, NULL) < 0 ||
		r.id != e->group.member[i].id)
		elastic_lose(c, i);
	else
		c->reports[i] = r;
}

/* Accept members that have lost their coordinator and call this one. */
static void take_callers(struct change *c)
{
	struct elastic *e = c->e;
	struct guest g;

	while (listener_take(e->listener, FRAME_REJOIN, &g)) {
		struct group_report r;
		struct frame f;
		int i = place_of(e, &g, &r);

		if (i >= 0 && frame_peek(g.fd, &f) < 0) { /* it has called another one since */
			close(g.fd);
			continue;
		}
		if (i < 0 || c->dead[i] || i == elastic_own_place(c)) {
			refuse(g.fd, WITHOUT);
			continue;
		}
		fd_close(&e->fd[i]);
		fd_close(&c->watch[i]);
		e->fd[i] = g.fd;
		c->reports[i] = r;
	}
}

/* Drop members that call as newcomers: they never heard that they are members. */
static void forget_returned(struct change *c)
{
	struct elastic *e = c->e;

	for (int k = 0; k < e->n_waiting; k++) {
		struct group_join j;

		memcpy(&j, e->waiting[k].body, sizeof(j));
		for (uint32_t i = 0; i < e->group.n; i++)
			if (group_is_same(&e->group.member[i], &j.self) && !c->dead[i])
				elastic_lose(c, (int)i);
	}
}

/* Handle the end of a watched member, or its message that its group has left this rank out. Returns
 * 0 or -ESTALE. */
static int hear_watched(struct change *c, int i, struct mlr_error *err)
{
	struct frame f;
	int n = frame_peek(c->watch[i], &f);

	if (n > 0 && f.kind == FRAME_REFUSED)
		return elastic_hear_refusal(c, c->watch[i], err);
	if (n > 0 && f.kind == FRAME_END)
		return elastic_fail_ended(c, err);
	if (n != 0)
		elastic_lose(c, i);
	return 0;
}

/* Wait a turn for reports, callers and newcomers. Returns 0 or -ESTALE. */
static int listen_once(struct change *c, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct pollfd p[2 * GROUP_MAX + 1];
	int n = (int)e->group.n, me = elastic_own_place(c), r = 0;

	for (int i = 0; i < n; i++) {
		p[2 * i] = (struct pollfd){ .fd = i == me ? -1 : e->fd[i], .events = POLLIN };
		p[2 * i + 1] = (struct pollfd){ .fd = c->watch[i], .events = POLLIN };
	}
	p[2 * n] = (struct pollfd){ .fd = listener_fd(e->listener), .events = POLLIN };
	if (poll(p, 2 * (nfds_t)n + 1, CHANGE_TURN_MS) < 0)
		return 0;
	if (p[2 * n].revents)
		listener_seen(e->listener);
	for (int i = 0; i < n; i++) {
		if (p[2 * i].revents)
			hear_member(c, i);
		if (r == 0 && p[2 * i + 1].revents && e->fd[i] < 0)
			r = hear_watched(c, i, err);
	}
	take_callers(c);
	receive_newcomers(e);
	forget_returned(c);
	return r;
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

/* Count the newcomers for which there are places. */
static int admissible(const struct change *c)
{
	int places = c->e->o.max - staying(c);

	return c->e->n_waiting < places ? c->e->n_waiting : places < 0 ? 0 : places;
}

/* Count the members that left on purpose: in an orderly change, all that precede this rank. */
static int have_left(const struct change *c)
{
	return c->is_orderly ? elastic_own_place(c) : 0;
}

/* Report the lost ranks, unless the others have gone on without this one. Returns 0 or -ESTALE. */
static int count_losses(struct change *c, struct mlr_error *err)
{
	const struct group *g = &c->e->group;
	int first = have_left(c), reports = 0;
	uint64_t step = 0;

	if (memcmp(c->told, c->dead, sizeof(c->told)) == 0)
		return 0;
	for (uint32_t i = 0; i < g->n; i++) {
		reports += c->reports[i].id != 0;
		if (c->reports[i].id && c->reports[i].at.step > step)
			step = c->reports[i].at.step;
	}
	TRY(elastic_check_run(c->e, reports == 1 && count(c->dead) > first, err));
	for (int i = first; i < (int)g->n; i++)
		if (c->dead[i] && !c->told[i])
			mlr_warning("--elastic: rank %d on '%s' (process %d) was lost; %d other%s "
				    "go%s on from step %" PRIu64,
				i, g->member[i].host, (int)g->member[i].pid, reports,
				reports == 1 ? "" : "s", reports == 1 ? "es" : "", step);
	memcpy(c->told, c->dead, sizeof(c->told));
	return 0;
}

/* Again now and then, as a note that grows old counts as left by a process that was killed. */
static void tell_missing(struct elastic *e, int n, int64_t *told)
{
	auto_free char *text = xasprintf("%d of at least %d ranks", n, e->o.min);

	if (!*told)
		mlr_info("--elastic: waiting for %s", text);
	if (mlr_now_ms() - *told < LATE_MS)
		return;
	*told = mlr_now_ms();
	elastic_note(e, text);
}

/* Wait for all members, and for enough ranks. Returns 0, -EINTR after a signal to stop, or -ESTALE.
 */
static int collect(struct change *c, struct mlr_error *err)
{
	int64_t begin = mlr_now_ms(), told = 0;
	int r = 0, late;

	receive_newcomers(c->e);
	for (; r == 0; r = listen_once(c, err)) {
		late = elastic_late(c->e, begin);
		if (late >= 0)
			elastic_lose(c, late);
		if (!all_reported(c))
			continue;
		r = count_losses(c, err);
		if (r < 0 || staying(c) + admissible(c) >= c->e->o.min)
			return r;
		if (elastic_is_stopping(c))
			return -EINTR;
		tell_missing(c->e, c->e->o.min - staying(c), &told);
	}
	return r;
}

/* Create the shared memory of ranks on one machine. Returns its descriptor or -1. */
static int make_segment(struct group *g)
{
	char path[NODE_SUMS_PATH_MAX];
	int fd;

	if (g->n < 2 || !group_is_local(g) || getenv("MLTRAIN_NO_SHARED_MEMORY"))
		return -1;
	fd = node_sums_segment(path, node_sums_size((int)g->n));
	if (fd >= 0)
		strcpy(g->segment, path);
	return fd;
}

/* Order the connections by the next group's ranks, and let the other members go. */
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
			frame_send(e->fd[i], FRAME_BYE, next->generation, NULL, 0, CHANGE_SEND_MS,
				NULL);
			fd_close(&e->fd[i]);
		}
		fd_close(&c->watch[i]);
	}
	for (int k = 0; k < taken; k++)
		fd[first + k] = e->waiting[k].fd;
	e->n_waiting -= taken;
	memmove(e->waiting, e->waiting + taken, (size_t)e->n_waiting * sizeof(e->waiting[0]));
	memcpy(e->fd, fd, sizeof(fd));
}

int elastic_lead(struct change *c, int *segment, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct member joiners[ELASTIC_WAITING];
	struct group next;
	int lost, taken;

	e->leader = elastic_own_place(c);
	c->reports[e->leader] = c->mine;
	for (int i = 0; e->broken && i < (int)e->group.n; i++)
		if (e->fd[i] >= 0)
			elastic_tell(e, e->fd[i], FRAME_BROKEN, 1000);
	TRY(collect(c, err));
	for (int i = 0; i < e->n_waiting; i++) {
		struct group_join j;

		memcpy(&j, e->waiting[i].body, sizeof(j));
		joiners[i] = j.self;
	}
	taken = group_next(&e->group, c->reports, joiners, e->n_waiting, e->o.max, &next);
	c->joined += taken;
	lost = count(c->dead) - have_left(c);
	c->lost += lost;
	c->left += (int)e->group.n - lost - ((int)next.n - taken);
	*segment = make_segment(&next);
	seat(c, &next, taken);
	e->group = next;
	for (int i = 1; i < (int)next.n; i++) /* a failure shows soon, as a lost rank */
		frame_send(e->fd[i], FRAME_GROUP, next.generation, &next, group_size(&next),
			CHANGE_SEND_MS, NULL);
	return 0;
}
