/*
 * Sums over ranks in a ring of TCP connections (Patarasuk and Yuan, "Bandwidth optimal all-reduce
 * algorithms for clusters of workstations", 2009). Each piece is cut into as many chunks as there
 * are ranks. A rank sends its own chunk, then each one that it has received and added to, one place
 * behind; in the second half of the way the chunks are sums and are only copied. What a rank sends
 * is thus what it receives, one chunk later, and it passes on bytes as soon as they are summed.
 *
 * Every chunk is summed once and copied from there, so all ranks have the same bits.
 */

#include "dist/sums.h"

#include <netinet/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define BUFFER ((size_t)64 << 10) /* bytes received at once, to be added */
#define CHUNK  1024               /* floats added at a time */

/* The position of one direction: a job, a phase of it, and bytes of that phase's chunk. */
struct cursor {
	uint64_t job;
	int phase;
	size_t at;
};

struct ring_sums {
	int to, from;
	int rank, ranks;
	struct sums_queue jobs;
	struct cursor out, in;
	char *buffer; /* [BUFFER]; of it `kept` bytes are a float's beginning */
	size_t kept;
};

/* Find the chunk that is sent in a phase; the one received then is the one sent in the next. */
static char *chunk(const struct ring_sums *r, uint64_t k, int phase, size_t *bytes)
{
	const struct sums_piece *j = &r->jobs.v[k % r->jobs.room];
	size_t c = (size_t)(((r->rank - phase) % r->ranks + r->ranks) % r->ranks);
	size_t of = (size_t)r->ranks;
	size_t from = j->n * c / of, end = j->n * (c + 1) / of;

	*bytes = (end - from) * sizeof(float);
	return (char *)(j->x + from);
}

/* Step over chunks that are complete, those without floats included. */
static void settle(const struct ring_sums *r, struct cursor *c, int ahead)
{
	size_t bytes;

	while (c->job < r->jobs.added) {
		chunk(r, c->job, c->phase + ahead, &bytes);
		if (c->at < bytes)
			return;
		c->at = 0;
		if (++c->phase == 2 * (r->ranks - 1)) {
			c->phase = 0;
			c->job++;
		}
	}
}

/* Count the final bytes of the chunk being sent: a chunk is received a phase before. */
static size_t sendable(const struct ring_sums *r, size_t bytes)
{
	const struct cursor *out = &r->out, *in = &r->in;

	if (out->phase == 0 || in->job > out->job)
		return bytes;
	if (in->job < out->job || in->phase < out->phase - 1)
		return 0;
	return in->phase >= out->phase ? bytes : in->at;
}

/* Returns 1 after progress, 0 if the socket is full or nothing is there, or -errno. */
static int send_some(struct ring_sums *r, struct mlr_error *err)
{
	size_t bytes, ready;
	ssize_t sent;
	char *from;

	if (r->out.job == r->jobs.added)
		return 0;
	from = chunk(r, r->out.job, r->out.phase, &bytes);
	ready = sendable(r, bytes);
	if (r->out.at >= ready)
		return 0;
	sent = send(r->to, from + r->out.at, ready - r->out.at, MSG_NOSIGNAL);
	if (sent < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : mlr_fail_errno(err, "send sums");
	r->out.at += (size_t)sent;
	settle(r, &r->out, 0);
	return 1;
}

static int recv_some(struct ring_sums *r, struct mlr_error *err)
{
	size_t bytes, left, want, whole;
	ssize_t got;
	char *to;
	int adds = r->in.phase < r->ranks - 1;

	if (r->in.job == r->jobs.added)
		return 0;
	to = chunk(r, r->in.job, r->in.phase + 1, &bytes);
	left = bytes - r->in.at - r->kept;
	want = adds && left > BUFFER - r->kept ? BUFFER - r->kept : left;
	got = recv(r->from, adds ? r->buffer + r->kept : to + r->in.at, want, 0);
	if (got == 0)
		return mlr_fail(err, ECONNRESET, "receive sums: the predecessor is gone");
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : mlr_fail_errno(err, "receive sums");
	if (!adds) {
		r->in.at += (size_t)got;
	} else {
		r->kept += (size_t)got;
		whole = r->kept / sizeof(float) * sizeof(float);
		sums_plus(
			(float *)(to + r->in.at), (const float *)r->buffer, whole / sizeof(float));
		r->kept -= whole;
		memmove(r->buffer, r->buffer + whole, r->kept);
		r->in.at += whole;
	}
	settle(r, &r->in, 1);
	return 1;
}

struct ring_sums *ring_sums_new(int to, int from, int rank, int ranks)
{
	struct ring_sums *r = xcalloc(1, sizeof(*r));
	int on = 1;

	*r = (struct ring_sums){ .to = to, .from = from, .rank = rank, .ranks = ranks };
	r->buffer = xmalloc(BUFFER);
	setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return r;
}

void ring_sums_free(struct ring_sums **r)
{
	if (!*r)
		return;
	close((*r)->to);
	close((*r)->from);
	free((*r)->jobs.v);
	free((*r)->buffer);
	free(*r);
	*r = NULL;
}

int ring_sums_add(void *sums, float *x, size_t n, struct mlr_error *err)
{
	struct ring_sums *r = sums;

	sums_queue_add(&r->jobs, r->out.job < r->in.job ? r->out.job : r->in.job, x, n);
	settle(r, &r->out, 0);
	settle(r, &r->in, 1);
	return 0;
}

int ring_sums_advance(void *sums, struct mlr_error *err)
{
	struct ring_sums *r = sums;
	int sent, got;

	do {
		got = recv_some(r, err);
		sent = got < 0 ? got : send_some(r, err);
	} while (sent > 0 || got > 0);
	if (sent < 0)
		return sent;
	return r->out.job == r->jobs.added && r->in.job == r->jobs.added;
}

void ring_sums_sleep(const struct ring_sums *r, int ms)
{
	struct pollfd p[] = { { .fd = r->in.job < r->jobs.added ? r->from : -1, .events = POLLIN },
		{ .fd = -1, .events = POLLOUT } };
	size_t bytes;

	if (r->out.job < r->jobs.added) {
		chunk(r, r->out.job, r->out.phase, &bytes);
		if (r->out.at < sendable(r, bytes))
			p[1].fd = r->to;
	}
	if (p[0].fd >= 0 || p[1].fd >= 0)
		poll(p, ARRAY_LEN(p), ms);
	else
		sched_yield(); /* the wait is for something else */
}
