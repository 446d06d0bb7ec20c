/* The star: the connections between rank 0 and each other rank, and what goes over them in a step.
 */
#include "dist/elastic_run.h"

#include "base/base.h"

#include <poll.h>

#define PIECE    ((size_t)4 << 20) /* bytes of one frame of weights */
#define BODY_MAX ((size_t)64 << 20)
#define LATE_MS  10000

/* A machine that sleeps does not stop this clock. */
static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int ranks_of(const struct elastic *e)
{
	return e->dist.ranks;
}

int elastic_break(struct elastic *e, int rank, struct mlr_error *err)
{
	const struct member *m = &e->group.member[rank < 0 ? 0 : rank];

	e->broken = 1;
	if (rank < 0)
		return mlr_fail(err, EIO, "a rank of generation %u was lost", e->group.generation);
	return mlr_fail(
		err, EIO, "rank %d on '%s' (process %d) was lost", rank, m->host, (int)m->pid);
}

/* A rank that was suspended may find one old frame in its socket. */
static void heard(struct elastic *e)
{
	memmove(e->heard_ms + 1, e->heard_ms, sizeof(e->heard_ms) - sizeof(e->heard_ms[0]));
	e->heard_ms[0] = now_ms();
}

int64_t elastic_silence_ms(const struct elastic *e)
{
	int64_t longest = 0, until = now_ms();

	for (size_t i = 0; i < ARRAY_LEN(e->heard_ms) && e->heard_ms[i]; i++) {
		if (until - e->heard_ms[i] > longest)
			longest = until - e->heard_ms[i];
		until = e->heard_ms[i];
	}
	return longest;
}

/* A faster rank may have sent what this one will ask for. All else tells of a loss. */
static int is_expected(const struct elastic *e, const struct frame *f)
{
	return f->generation == e->group.generation &&
		(f->kind == FRAME_SUM || f->kind == FRAME_BYTES);
}

static int is_lost(const struct elastic *e, int rank)
{
	struct frame f;
	int r = frame_peek(e->fd[rank], &f);

	return r < 0 || (r > 0 && !is_expected(e, &f));
}

int elastic_look(struct elastic *e, struct mlr_error *err)
{
	int n = e->dist.rank == 0 ? ranks_of(e) : 1;

	for (int i = e->dist.rank == 0; i < n; i++)
		if (is_lost(e, i))
			return elastic_break(e, i, err);
	return 0;
}

/* Name the rank that is waited for, once. */
static void tell_late(const struct elastic *e, int rank)
{
	const struct member *m = &e->group.member[rank];

	mlr_warning("waiting for rank %d on '%s' (process %d)", rank, m->host, (int)m->pid);
}

/*
 * Rank 0: receive the next frame of each other rank, of one kind and size.
 *
 *   to   [ranks][size]
 */
static int receive_all(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	int n = ranks_of(e), left = n - 1, told = 0;
	char has[GROUP_MAX] = { 1 };
	int64_t late = mlr_now_ms() + LATE_MS;

	while (left > 0) {
		struct pollfd p[GROUP_MAX];

		for (int i = 0; i < n; i++)
			p[i] = (struct pollfd){ .fd = i ? e->fd[i] : -1, .events = POLLIN };
		if (poll(p, (nfds_t)n, 1000) < 0 && errno != EINTR)
			return mlr_fail_errno(err, "wait for the other ranks");
		for (int i = 1; i < n; i++) {
			struct frame f = { 0 };
			int r;

			if (!p[i].revents)
				continue;
			r = has[i] ? -EPROTO : frame_peek(e->fd[i], &f);
			if (r == 0)
				continue;
			if (r < 0 || f.kind != kind || f.size != size ||
				f.generation != e->group.generation ||
				frame_recv_head(e->fd[i], size, &f, -1, NULL) < 0 ||
				frame_recv_bytes(e->fd[i], (char *)to + (size_t)i * size, size, -1,
					NULL) < 0)
				return elastic_break(e, i, err);
			heard(e);
			has[i] = 1;
			left--;
		}
		for (int i = 1; i < n && !told && mlr_now_ms() > late; i++)
			if (!has[i]) {
				tell_late(e, i);
				told = 1;
			}
	}
	return 0;
}

static int send_all(struct elastic *e, enum frame_kind kind, const void *from, size_t size,
	struct mlr_error *err)
{
	for (int i = 1; i < ranks_of(e); i++)
		if (frame_send(e->fd[i], kind, e->group.generation, from, size, -1, NULL) < 0)
			return elastic_break(e, i, err);
	return 0;
}

static int send_up(struct elastic *e, enum frame_kind kind, const void *from, size_t size,
	struct mlr_error *err)
{
	if (frame_send(e->fd[0], kind, e->group.generation, from, size, -1, NULL) < 0)
		return elastic_break(e, 0, err);
	return 0;
}

/* Receive one frame of rank 0's. */
static int receive_down(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	struct frame f;
	int is_broken;

	if (frame_recv_head(e->fd[0], BODY_MAX, &f, -1, NULL) < 0)
		return elastic_break(e, 0, err);
	is_broken = f.kind == FRAME_BROKEN; /* it tells of another's end */
	if (f.kind != kind || f.size != size || f.generation != e->group.generation ||
		frame_recv_bytes(e->fd[0], to, size, -1, NULL) < 0)
		return elastic_break(e, is_broken ? -1 : 0, err);
	heard(e);
	return 0;
}

int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct elastic *e = ctx;
	size_t size = n * sizeof(*x);
	auto_free double *all = NULL;
	int r;

	if (ranks_of(e) == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, -1, err);
	if (e->dist.rank != 0) {
		r = send_up(e, FRAME_SUM, x, size, err);
		return r < 0 ? r : receive_down(e, FRAME_SUM, x, size, err);
	}
	all = xcalloc((size_t)ranks_of(e), size);
	r = receive_all(e, FRAME_SUM, all, size, err);
	if (r < 0)
		return r;
	for (int k = 1; k < ranks_of(e); k++)
		for (size_t i = 0; i < n; i++)
			x[i] += all[(size_t)k * n + i];
	return send_all(e, FRAME_SUM, x, size, err);
}

int elastic_broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (ranks_of(e) == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, -1, err);
	return e->dist.rank == 0 ? send_all(e, FRAME_BYTES, x, bytes, err)
				 : receive_down(e, FRAME_BYTES, x, bytes, err);
}

int elastic_gather(
	struct elastic *e, const void *from, size_t bytes, void *to, struct mlr_error *err)
{
	if (e->broken)
		return elastic_break(e, -1, err);
	if (e->dist.rank != 0)
		return send_up(e, FRAME_BYTES, from, bytes, err);
	memcpy(to, from, bytes);
	return receive_all(e, FRAME_BYTES, to, bytes, err);
}

/* From the source to rank 0, if that is another, then to whoever needs it. */
static int share_piece(struct elastic *e, void *at, size_t n, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int source = group_find(g, g->source), rank = e->dist.rank;
	struct frame f;

	if (rank == source && rank != 0)
		return send_up(e, FRAME_BYTES, at, n, err);
	if (rank != 0)
		return g->member[rank].needs ? receive_down(e, FRAME_BYTES, at, n, err) : 0;
	if (source != 0 &&
		(frame_recv_head(e->fd[source], n, &f, -1, NULL) < 0 || f.kind != FRAME_BYTES ||
			f.size != n || frame_recv_bytes(e->fd[source], at, n, -1, NULL) < 0))
		return elastic_break(e, source, err);
	for (int i = 1; i < ranks_of(e); i++)
		if (g->member[i].needs &&
			frame_send(e->fd[i], FRAME_BYTES, g->generation, at, n, -1, NULL) < 0)
			return elastic_break(e, i, err);
	return 0;
}

int elastic_share(struct dist *d, void *bytes, size_t size, struct mlr_error *err)
{
	struct elastic *e = (struct elastic *)d;
	int r = 0;

	for (size_t at = 0; at < size && r == 0; at += PIECE)
		r = share_piece(e, (char *)bytes + at, size - at < PIECE ? size - at : PIECE, err);
	return r;
}
