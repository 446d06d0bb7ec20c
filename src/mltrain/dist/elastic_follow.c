/* The part of a rank that is not the coordinator in a change of the group. */
#include "dist/elastic_change.h"

#include "base/base.h"
#include "config.h"

#include <poll.h>

#define ANSWER_MS     30000 /* for a member that is there, but does not answer */
#define TELL_MS       1000
#define CALL_AGAIN_MS 20
#define COMEBACK_MS   30000 /* for a newcomer whose coordinator is gone */

/* The coordinator's last message. */
enum word { WORD_GROUP, WORD_BYE, WORD_END, WORD_LOST, WORD_STOP };

static int hear_group(struct change *c, size_t size, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct group g;
	char body[sizeof(g)];
	int r = frame_recv_bytes(e->fd[0], body, size, CHANGE_SEND_MS, err);

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

int change_hear_refusal(struct change *c, int fd, struct mlr_error *err)
{
	char why[256] = "";
	struct frame f;

	if (frame_recv_head(fd, sizeof(why) - 1, &f, CHANGE_SEND_MS, NULL) == 0)
		frame_recv_bytes(fd, why, f.size, CHANGE_SEND_MS, NULL);
	mlr_fail(err, c->e->self.id ? ESTALE : EPROTO, "--elastic %s: this rank was refused: %s",
		c->e->o.where, why);
	return c->e->self.id ? mlr_hint(err, "start it again to join the run") : -EPROTO;
}

int change_end(const struct change *c, struct mlr_error *err)
{
	return mlr_fail(
		err, ESTALE, "--elastic %s: the run has ended without this rank", c->e->o.where);
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

		if (change_is_told_to_stop(c) && !c->mine.leaves) {
			*ret = WORD_STOP;
			return 0;
		}
		r = poll(&p, 1, CHANGE_TURN_MS);
		if (r <= 0)
			continue;
		r = frame_peek(e->fd[0], &f);
		if (r == 0)
			continue;
		*ret = WORD_LOST;
		if (r > 0 && f.kind == FRAME_REFUSED)
			return change_hear_refusal(c, e->fd[0], err);
		if (r < 0 || frame_recv_head(e->fd[0], UINT32_MAX, &f, CHANGE_SEND_MS, NULL) < 0)
			return 0;
		switch (f.kind) {
		case FRAME_GROUP:
			*ret = WORD_GROUP;
			return f.size <= sizeof(struct group)
				? hear_group(c, f.size, err)
				: mlr_fail(err, EPROTO, "a list of ranks that is too long");
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

/*
 * Call member i with a frame of this kind until it answers. It has ended only if nobody is there: a
 * process that is stopped, or one with a crowd at its door, is given a time.
 *
 * Returns a descriptor; -EHOSTUNREACH; what else failed for so long; or -EINTR if told to stop.
 */
static int reach(struct change *c, int i, enum frame_kind kind)
{
	struct elastic *e = c->e;
	const struct member *m = &e->group.member[i];
	int64_t begin = mlr_now_ms();
	int told = 0;

	for (;;) {
		struct mlr_error why = MLR_ERROR_INIT;
		int fd = elastic_call(e, m, &why);

		if (fd >= 0 &&
			frame_send(fd, kind, e->group.generation, &c->mine, sizeof(c->mine),
				CHANGE_SEND_MS, &why) == 0)
			return fd;
		elastic_hang_up(&fd);
		if (why.code == EHOSTUNREACH)
			return -EHOSTUNREACH;
		if (change_is_told_to_stop(c) && !c->mine.leaves)
			return -EINTR;
		if (mlr_now_ms() - begin > TELL_MS && !told++)
			mlr_warning("--elastic: rank %d on '%s' (process %d) does not answer yet: "
				    "%s; calling again for %d seconds",
				i, m->host, (int)m->pid, why.text, ANSWER_MS / 1000);
		if (mlr_now_ms() - begin > ANSWER_MS)
			return -why.code;
		poll(NULL, 0, CALL_AGAIN_MS);
	}
}

/* Find the oldest member that answers, and report to it. Returns 1 if that is this one; 0 without a
 * connection if this one leaves; or -errno, -ESTALE if it was left out. */
static int elect(struct change *c, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int me = change_place(c);

	for (int i = 0; i < me; i++) {
		int fd = reach(c, i, FRAME_REJOIN);

		if (fd == -EINTR)
			return 0;
		c->dead[i] = fd < 0;
		if (fd >= 0) {
			e->fd[0] = fd;
			return 0;
		}
	}
	if (c->mine.leaves && me + 1 < (int)e->group.n)
		return 0;
	TRY(elastic_check_run(e, !c->is_orderly && e->group.n == (uint32_t)me + 1, err));
	for (int i = me + 1; i < (int)e->group.n; i++) {
		c->watch[i] = reach(c, i, FRAME_WATCH);
		if (c->watch[i] < 0)
			change_lose(c, i);
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
		if (mlr_now_ms() > end || change_is_told_to_stop(c))
			return mlr_wrap(err, "--elastic %s", e->o.where);
		poll(NULL, 0, 2 * CHANGE_TURN_MS);
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
	if (frame_send(e->fd[0], FRAME_JOIN, 0, &j, sizeof(j), CHANGE_SEND_MS, NULL) < 0)
		elastic_hang_up(&e->fd[0]);
	return 1;
}

/* Returns 0 with an outcome; 1: this rank is the coordinator now. */
int change_follow(struct change *c, enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int is_new = e->group.n == 0, r;
	enum word word;

	if (!is_new && e->fd[0] >= 0 &&
		frame_send(e->fd[0], FRAME_REPORT, e->group.generation, &c->mine, sizeof(c->mine),
			CHANGE_SEND_MS, NULL) < 0)
		elastic_hang_up(&e->fd[0]);
	for (;;) {
		if (e->fd[0] < 0) {
			r = is_new ? join(c, err) : elect(c, err);
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
			return is_new ? 0 : change_end(c, err);
		case WORD_BYE:
			*ret = ELASTIC_LEFT;
			return 0;
		case WORD_STOP:
			*ret = ELASTIC_LEFT;
			if (is_new)
				return 0;
			c->mine.leaves = 1;
			if (frame_send(e->fd[0], FRAME_REPORT, e->group.generation, &c->mine,
				    sizeof(c->mine), CHANGE_SEND_MS, NULL) == 0)
				break;
			/* fall through */
		case WORD_LOST:
			elastic_hang_up(&e->fd[0]);
			if (is_new)
				poll(NULL, 0, CHANGE_TURN_MS);
		}
	}
}
