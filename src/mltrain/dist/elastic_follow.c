/* The part of a rank that is not the coordinator in a change of the group. */
#include "dist/elastic_run.h"

#include "config.h"

#include <poll.h>

#define PATIENCE_MS   30000 /* for a member that runs, but does not answer */
#define TELL_MS       1000
#define CALL_AGAIN_MS 20
#define COMEBACK_MS   30000 /* for a newcomer whose coordinator is gone */

/* The coordinator's last message. */
enum answer { ANSWER_GROUP, ANSWER_BYE, ANSWER_END, ANSWER_LOST, ANSWER_STOP };

static int hear_group(struct change *c, size_t size, struct mlr_error *err)
{
	struct elastic *e = c->e;
	struct group g;
	char body[sizeof(g)];

	TRY(frame_recv_bytes(e->fd[0], body, size, CHANGE_SEND_MS, err));
	TRY(group_parse(body, size, &g, err));
	for (uint32_t i = 0; e->self.id == 0 && i < g.n; i++)
		if (group_is_same(&g.member[i], &e->self))
			e->self.id = g.member[i].id;
	if (group_find(&g, e->self.id) < 0)
		return mlr_fail(err, EPROTO, "the list of ranks lacks this one");
	e->group = g;
	return 0;
}

int elastic_hear_refusal(struct change *c, int fd, struct mlr_error *err)
{
	char why[256] = "";
	struct frame f;

	if (frame_recv_head(fd, sizeof(why) - 1, &f, CHANGE_SEND_MS, NULL) == 0)
		frame_recv_bytes(fd, why, f.size, CHANGE_SEND_MS, NULL);
	mlr_fail(err, c->e->self.id ? ESTALE : EPROTO, "--elastic %s: this rank was refused: %s",
		c->e->o.where, why);
	return c->e->self.id ? mlr_hint(err, "start it again to join the run") : -EPROTO;
}

int elastic_fail_ended(const struct change *c, struct mlr_error *err)
{
	return mlr_fail(
		err, ESTALE, "--elastic %s: the run has ended without this rank", c->e->o.where);
}

/* Wait for the coordinator's answer. A rank that gets a signal to stop reports again; a newcomer
 * just goes. */
static int listen_to_coordinator(struct change *c, enum answer *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int64_t begin = mlr_now_ms();

	for (;;) {
		struct pollfd p = { .fd = e->fd[0], .events = POLLIN };
		struct frame f = { 0 };
		int r;

		if (elastic_is_stopping(c) && !c->mine.leaves) {
			*ret = ANSWER_STOP;
			return 0;
		}
		*ret = ANSWER_LOST;
		r = poll(&p, 1, CHANGE_TURN_MS);
		if (elastic_late(e, begin) >= 0)
			return 0;
		if (r <= 0)
			continue;
		r = frame_peek(e->fd[0], &f);
		if (r == 0)
			continue;
		if (r > 0 && f.kind == FRAME_REFUSED)
			return elastic_hear_refusal(c, e->fd[0], err);
		if (r < 0 || frame_recv_head(e->fd[0], UINT32_MAX, &f, CHANGE_SEND_MS, NULL) < 0)
			return 0;
		switch (f.kind) {
		case FRAME_GROUP:
			*ret = ANSWER_GROUP;
			return f.size <= sizeof(struct group)
				? hear_group(c, f.size, err)
				: mlr_fail(err, EPROTO, "the list of ranks is too long");
		case FRAME_BYE:
			*ret = ANSWER_BYE;
			return 0;
		case FRAME_END:
			*ret = ANSWER_END;
			return 0;
		default: /* of a sum that no longer counts */
			if (frame_skip(e->fd[0], f.size, NULL) < 0)
				return 0;
		}
	}
}

static int send_report(struct change *c, int fd, enum frame_kind kind, struct mlr_error *err)
{
	return frame_send(
		fd, kind, c->e->group.generation, &c->mine, sizeof(c->mine), CHANGE_SEND_MS, err);
}

/*
 * Call member i with a frame of this kind until it answers. Only an unreachable port shows that it
 * has ended: a process that is stopped or has too many callers gets more time.
 *
 * Returns a descriptor; -EHOSTUNREACH; another failure that lasted; or -EINTR after a signal to
 * stop, when the member is called as the next coordinator and does not know that this one leaves.
 */
static int reach(struct change *c, int i, enum frame_kind kind)
{
	struct elastic *e = c->e;
	const struct member *m = &e->group.member[i];
	int64_t begin = mlr_now_ms();
	int told = 0;

	for (;;) {
		struct mlr_error why = MLR_ERROR_INIT;
		int fd;

		if (elastic_is_suspended(e, m))
			return -ETIMEDOUT;
		fd = elastic_call(e, m, ELASTIC_CALL_MS, &why);
		if (fd >= 0 && send_report(c, fd, kind, &why) == 0)
			return fd;
		fd_close(&fd);
		if (why.code == EHOSTUNREACH)
			return -EHOSTUNREACH;
		if (kind == FRAME_REJOIN && elastic_is_stopping(c) && !c->mine.leaves)
			return -EINTR;
		if (mlr_now_ms() - begin > TELL_MS && !told++)
			mlr_warning("--elastic: rank %d on '%s' (process %d) does not answer yet: "
				    "%s; calling again for %d seconds",
				i, m->host, (int)m->pid, why.text, PATIENCE_MS / 1000);
		if (mlr_now_ms() - begin > PATIENCE_MS)
			return -why.code;
		poll(NULL, 0, CALL_AGAIN_MS);
	}
}

int elastic_has_heir(const struct change *c)
{
	struct elastic *e = c->e;

	for (int i = elastic_own_place(c) + 1; i < (int)e->group.n; i++) {
		auto_close int fd = elastic_call(e, &e->group.member[i], ELASTIC_CALL_MS, NULL);

		if (fd != -EHOSTUNREACH)
			return 1;
	}
	return 0;
}

/* Find the oldest member that answers, and report to it. Returns 1 if that is this one; 0 without a
 * connection if this one leaves; or -errno, -ESTALE if it was left out. */
static int elect(struct change *c, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int me = elastic_own_place(c);

	for (int i = 0; i < me; i++) {
		int fd = reach(c, i, FRAME_REJOIN);

		if (fd == -EINTR) {
			c->mine.leaves = 1;
			if (elastic_has_heir(c))
				return 0;
			fd = reach(c, i, FRAME_REJOIN);
		}
		c->dead[i] = fd < 0;
		if (fd >= 0) {
			e->fd[0] = fd;
			e->leader = i;
			return 0;
		}
	}
	if (c->mine.leaves && elastic_has_heir(c))
		return 0;
	TRY(elastic_check_run(e, !c->is_orderly && e->group.n == (uint32_t)me + 1, err));
	for (int i = me + 1; i < (int)e->group.n; i++) {
		c->watch[i] = reach(c, i, FRAME_WATCH);
		if (c->watch[i] < 0)
			elastic_lose(c, i);
	}
	elastic_publish(e); /* newcomers that have lost the coordinator look there */
	return 1;
}

/* Call the run of a newcomer's rendezvous file or address. Returns 1, 0 if it is over, -errno. */
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
			r = elastic_call(e, &e->file.coordinator, ELASTIC_CALL_MS, err);
		if (r >= 0) {
			e->fd[0] = r;
			return 1;
		}
		if (mlr_now_ms() > end || elastic_is_stopping(c))
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
	group_digest_options(e->options, j.options);
	memcpy(j.data, e->data, sizeof(j.data));
	if (frame_send(e->fd[0], FRAME_JOIN, 0, &j, sizeof(j), CHANGE_SEND_MS, NULL) < 0)
		fd_close(&e->fd[0]);
	return 1;
}

int elastic_follow(struct change *c, enum elastic_outcome *ret, struct mlr_error *err)
{
	struct elastic *e = c->e;
	int is_new = e->group.n == 0, r;
	enum answer answer;

	if (!is_new && e->fd[0] >= 0 && send_report(c, e->fd[0], FRAME_REPORT, NULL) < 0)
		fd_close(&e->fd[0]);
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
		answer = ANSWER_LOST;
		TRY(listen_to_coordinator(c, &answer, err));
		switch (answer) {
		case ANSWER_GROUP:
			*ret = ELASTIC_MEMBER;
			return 0;
		case ANSWER_END:
			*ret = ELASTIC_OVER;
			return is_new ? 0 : elastic_fail_ended(c, err);
		case ANSWER_BYE:
			*ret = ELASTIC_LEFT;
			return 0;
		case ANSWER_STOP:
			*ret = ELASTIC_LEFT;
			if (is_new)
				return 0;
			c->mine.leaves = 1;
			if (send_report(c, e->fd[0], FRAME_REPORT, NULL) == 0)
				break;
			/* fall through */
		case ANSWER_LOST:
			fd_close(&e->fd[0]);
			if (is_new)
				poll(NULL, 0, CHANGE_TURN_MS);
		}
	}
}
