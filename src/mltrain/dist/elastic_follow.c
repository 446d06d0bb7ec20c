/* The part of a rank that is not the coordinator in a change of the group. */
#include "dist/elastic_change.h"

#include "base/clock.h"
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define COMEBACK_MS 30000 /* for a newcomer whose coordinator is gone */

/* What the coordinator has said. */
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

static int hear_refusal(struct change *c, size_t size, struct mlr_error *err)
{
	char why[256] = "";

	size = size < sizeof(why) - 1 ? size : sizeof(why) - 1;
	frame_recv_bytes(c->e->fd[0], why, size, CHANGE_SEND_MS, NULL);
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
		if (r < 0 || frame_recv_head(e->fd[0], UINT32_MAX, &f, CHANGE_SEND_MS, NULL) < 0)
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
	int me = change_place(c);

	for (int i = 0; i < me; i++) {
		int fd = elastic_call(e, &e->group.member[i], NULL);

		if (fd < 0 ||
			frame_send(fd, FRAME_REJOIN, e->group.generation, &c->mine, sizeof(c->mine),
				CHANGE_SEND_MS, NULL) < 0) {
			elastic_hang_up(&fd);
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
			frame_send(c->watch[i], FRAME_WATCH, e->group.generation, NULL, 0,
				CHANGE_SEND_MS, NULL) < 0)
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
