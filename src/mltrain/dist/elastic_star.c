/* The star: the connections between rank 0 and each other rank, and what goes over them in a step.
 */
#include "dist/elastic_run.h"

#include <poll.h>

#define PIECE ((size_t)4 << 20) /* bytes of one frame of weights */

/* This clock runs on while the machine sleeps. */
static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
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

/* Three times are kept: a rank that was suspended may find one old frame in its socket. */
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

/* Is it the second report of a rank that was asked to end while it waited for this generation? */
static int is_late_report(const struct elastic *e, const struct frame *f)
{
	return f->kind == FRAME_REPORT && f->generation < e->group.generation;
}

/* Look at a rank's next frame that counts, as frame_peek() does. */
static int peek(const struct elastic *e, int fd, struct frame *ret)
{
	int r = frame_peek(fd, ret);

	while (r > 0 && is_late_report(e, ret)) {
		r = frame_recv_head(fd, UINT32_MAX, ret, 0, NULL);
		r = r < 0 || frame_skip(fd, ret->size, NULL) < 0 ? -ECONNRESET
								 : frame_peek(fd, ret);
	}
	return r;
}

/* Receive the head of a rank's next frame that counts. */
static int receive_head(const struct elastic *e, int fd, struct frame *ret)
{
	int r;

	do
		r = frame_recv_head(fd, UINT32_MAX, ret, -1, NULL);
	while (r == 0 && is_late_report(e, ret) && frame_skip(fd, ret->size, NULL) == 0);
	return r;
}

int elastic_look(struct elastic *e, struct mlr_error *err)
{
	int n = e->dist.rank == 0 ? e->dist.ranks : 1;

	for (int i = e->dist.rank == 0; i < n; i++) {
		struct frame f;
		int r = peek(e, e->fd[i], &f);

		/* A faster rank may have sent what this one will ask for. Any other frame shows a
		 * loss. */
		if (r < 0 ||
			(r > 0 &&
				(f.generation != e->group.generation ||
					(f.kind != FRAME_SUM && f.kind != FRAME_BYTES))))
			return elastic_break(e, i, err);
	}
	return 0;
}

/* Receive one frame of a generation's sum. Returns 0 or -EIO; *got gets the kind that came. */
static int receive(struct elastic *e, int fd, enum frame_kind kind, void *to, size_t size,
	enum frame_kind *got)
{
	struct frame f = { 0 };
	int r = receive_head(e, fd, &f);

	*got = f.kind;
	if (r < 0 || f.kind != kind || f.size != size || f.generation != e->group.generation ||
		frame_recv_bytes(fd, to, size, -1, NULL) < 0)
		return -EIO;
	heard(e);
	return 0;
}

/*
 * Rank 0: receive the next frame of each other rank, of one kind and size.
 *
 *   to   [ranks][size]
 */
static int receive_all(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	int n = e->dist.ranks, left = n - 1;
	char has[GROUP_MAX] = { 1 };
	int64_t begin = mlr_now_ms();

	while (left > 0) {
		struct pollfd p[GROUP_MAX];

		for (int i = 0; i < n; i++)
			p[i] = (struct pollfd){ .fd = i ? e->fd[i] : -1, .events = POLLIN };
		if (poll(p, (nfds_t)n, 1000) < 0 && errno != EINTR)
			return mlr_fail_errno(err, "wait for the other ranks");
		for (int i = 1; i < n; i++) {
			enum frame_kind got;
			struct frame f;
			int r;

			if (!p[i].revents)
				continue;
			r = has[i] ? -EPROTO : peek(e, e->fd[i], &f);
			if (r == 0)
				continue;
			if (r < 0 ||
				receive(e, e->fd[i], kind, (char *)to + (size_t)i * size, size,
					&got) < 0)
				return elastic_break(e, i, err);
			has[i] = 1;
			left--;
		}
		TRY(elastic_turn(e, begin, err));
	}
	return 0;
}

static int send_all(struct elastic *e, enum frame_kind kind, const void *from, size_t size,
	struct mlr_error *err)
{
	for (int i = 1; i < e->dist.ranks; i++)
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

/* Receive one frame from rank 0. */
static int receive_down(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	enum frame_kind got;

	if (receive(e, e->fd[0], kind, to, size, &got) == 0)
		return 0;
	return elastic_break(e, got == FRAME_BROKEN ? -1 : 0, err); /* another rank has ended */
}

int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct elastic *e = ctx;
	size_t size = n * sizeof(*x);
	auto_free double *all = NULL;

	if (e->dist.ranks == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, -1, err);
	if (e->dist.rank != 0) {
		TRY(send_up(e, FRAME_SUM, x, size, err));
		return receive_down(e, FRAME_SUM, x, size, err);
	}
	all = xcalloc((size_t)e->dist.ranks, size);
	TRY(receive_all(e, FRAME_SUM, all, size, err));
	for (int k = 1; k < e->dist.ranks; k++)
		for (size_t i = 0; i < n; i++)
			x[i] += all[(size_t)k * n + i];
	return send_all(e, FRAME_SUM, x, size, err);
}

int elastic_broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (e->dist.ranks == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, -1, err);
	return e->dist.rank == 0 ? send_all(e, FRAME_BYTES, x, bytes, err)
				 : receive_down(e, FRAME_BYTES, x, bytes, err);
}

int elastic_gather(struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err)
{
	struct elastic *e = (struct elastic *)d;

	if (e->broken)
		return elastic_break(e, -1, err);
	if (e->dist.rank != 0)
		return send_up(e, FRAME_BYTES, from, bytes, err);
	memcpy(to, from, bytes);
	return receive_all(e, FRAME_BYTES, to, bytes, err);
}

/* Copy from the source to rank 0, unless they are the same, and from there to those that need it.
 */
static int share_piece(struct elastic *e, void *at, size_t n, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int source = group_find(g, g->source), rank = e->dist.rank;
	enum frame_kind got;

	if (rank == source && rank != 0)
		return send_up(e, FRAME_BYTES, at, n, err);
	if (rank != 0)
		return g->member[rank].needs ? receive_down(e, FRAME_BYTES, at, n, err) : 0;
	if (source != 0 && receive(e, e->fd[source], FRAME_BYTES, at, n, &got) < 0)
		return elastic_break(e, source, err);
	for (int i = 1; i < e->dist.ranks; i++)
		if (g->member[i].needs &&
			frame_send(e->fd[i], FRAME_BYTES, g->generation, at, n, -1, NULL) < 0)
			return elastic_break(e, i, err);
	return 0;
}

int elastic_share(struct dist *d, void *bytes, size_t size, struct mlr_error *err)
{
	struct elastic *e = (struct elastic *)d;

	for (size_t at = 0; at < size; at += PIECE)
		TRY(share_piece(e, (char *)bytes + at, size - at < PIECE ? size - at : PIECE, err));
	return 0;
}
