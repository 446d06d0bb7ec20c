#include "dist/elastic_run.h"

#include <poll.h>
#include <sched.h>

/* --- the star: between rank 0 and each other rank; what goes over it in a step ---------------- */

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

static int broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (e->dist.ranks == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, -1, err);
	return e->dist.rank == 0 ? send_all(e, FRAME_BYTES, x, bytes, err)
				 : receive_down(e, FRAME_BYTES, x, bytes, err);
}

static int gather(struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err)
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

#define SPINS      1000  /* turns of waiting before the CPU is yielded */
#define RING_SPINS 4     /* the same for a ring, whose turns are system calls */
#define LOOK_MASK  0x3fu /* turns between looks at the star, then */

static struct elastic *own(struct dist *d)
{
	return (struct elastic *)d;
}

static const struct elastic *own_const(const struct dist *d)
{
	return (const struct elastic *)d;
}

/* --- what struct dist provides ------------------------------------------------------------- */

static void ready(void *ctx, float *part, size_t count)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_ready(e->sums, part, count);
}

static void poll_sums(void *ctx)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_poll(e->sums);
}

static int wait_sums(void *ctx, struct mlr_error *err)
{
	struct elastic *e = ctx;
	struct mlr_error why = MLR_ERROR_INIT;

	if (!e->sums || (!e->broken && sums_wait(e->sums, &why) == 0))
		return 0;
	return elastic_break(e, -1, err);
}

int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (++*turns == 1)
		e->idle_since = mlr_now_ms();
	if (e->ring && *turns > RING_SPINS)
		ring_sums_sleep(e->ring, 1);
	else if (!e->ring && *turns > SPINS)
		sched_yield();
	else
		return 0;
	if (*turns & LOOK_MASK)
		return 0;
	TRY(elastic_turn(e, e->idle_since, err));
	return elastic_look(e, err);
}

static void lost(void *ctx)
{
	elastic_break(ctx, -1, NULL);
}

void elastic_hang_up_all(struct elastic *e)
{
	listener_close(&e->listener);
	for (int i = 0; i < GROUP_MAX; i++)
		fd_close(&e->fd[i]);
	while (e->n_waiting > 0)
		close(e->waiting[--e->n_waiting].fd);
}

int elastic_tell(const struct elastic *e, int fd, enum frame_kind kind, int timeout_ms)
{
	return frame_send(fd, kind, e->group.generation, NULL, 0, timeout_ms, NULL);
}

void elastic_drop_sums(struct elastic *e)
{
	sums_free(&e->sums);
	node_sums_free(&e->node);
	ring_sums_free(&e->ring);
}

/* --- opening and closing ------------------------------------------------------------------- */

static void close_elastic(struct dist *d)
{
	struct elastic *e = own(d);

	elastic_drop_sums(e);
	elastic_late_done(e);
	elastic_hang_up_all(e);
	frame_wait_by(NULL, NULL);
	json_decref(e->options);
	if (e->has_file && d->ranks == 1)
		rendezvous_remove(e->o.where, &e->file);
	free(e);
}

/* Do nothing: the other ranks go on. */
static void abort_elastic(struct dist *d, int status)
{
}

static const struct dist_ops ops = { gather, close_elastic, abort_elastic };

int elastic_open(const struct elastic_options *o, struct dist **ret, struct mlr_error *err)
{
	struct elastic *e = xcalloc(1, sizeof(*e));
	int r;

	e->o = *o;
	e->dist = (struct dist){ .name = "elastic",
		.ranks = 1,
		.local_ranks = 1,
		.elastic = 1,
		.ops = &ops,
		.exchange = { .ranks = 1,
			.ctx = e,
			.ready = ready,
			.poll = poll_sums,
			.wait = wait_sums,
			.sum = elastic_sum,
			.broadcast = broadcast,
			.idle = elastic_idle,
			.lost = lost,
			.local_ranks = 1 } };
	for (int i = 0; i < GROUP_MAX; i++)
		e->fd[i] = -1;
	group_describe_self(&e->self);
	frame_wait_by(elastic_turn, e);
	r = elastic_meet(e, err);
	if (r < 0) {
		e->has_file = 0;
		close_elastic(&e->dist);
		return r;
	}
	*ret = &e->dist;
	return 0;
}

int elastic_is_newcomer(const struct dist *d)
{
	return d && d->elastic && own_const(d)->group.n == 0;
}

int elastic_most(const struct dist *d)
{
	return own_const(d)->o.max;
}

void elastic_say_options(struct dist *d, const json_t *options, const char *data)
{
	struct elastic *e = own(d);

	e->options = json_deep_copy(options);
	snprintf(e->data, sizeof(e->data), "%s", data);
}

int elastic_is_broken(const struct dist *d)
{
	return d && d->elastic && own_const(d)->broken;
}

struct elastic_change elastic_latest(const struct dist *d)
{
	return own_const(d)->change;
}

int elastic_must_share(const struct dist *d)
{
	const struct group *g = &own_const(d)->group;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->member[i].needs)
			return 1;
	return 0;
}

int elastic_needs(const struct dist *d)
{
	return own_const(d)->group.member[d->rank].needs;
}

/* --- the end ------------------------------------------------------------------------------- */

int elastic_finish(struct dist *d, struct mlr_error *err)
{
	struct elastic *e = own(d);
	struct frame f;

	if (d->rank != 0) {
		if (frame_recv_head(e->fd[0], 0, &f, -1, NULL) == 0 && f.kind == FRAME_END)
			return 0;
		return elastic_break(e, 0, err);
	}
	for (int i = 1; i < d->ranks; i++)
		elastic_tell(e, e->fd[i], FRAME_END, 1000);
	elastic_tell_end(e);
	if (e->has_file)
		rendezvous_remove(e->o.where, &e->file);
	e->has_file = 0;
	return 0;
}
