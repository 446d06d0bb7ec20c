#include "dist/ring_sums.h"

#include <netinet/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define BUFFER ((size_t)64 << 10) /* bytes received at once, to be added */
#define CHUNK  1024               /* floats added at a time */

struct job {
	float *x;
	size_t n;
};

/* The position of one direction: a job, a phase of it, and bytes of that phase's chunk. */
struct cursor {
	uint64_t job;
	int phase;
	size_t at;
};

struct ring_sums {
	int to, from;
	int rank, ranks;
	struct job *jobs; /* [room], those under way, by number modulo room */
	size_t room;
	uint64_t added;
	struct cursor out, in;
	char *buffer; /* [BUFFER]; of it `kept` bytes are a float's beginning */
	size_t kept;
};

static struct job *job(const struct ring_sums *r, uint64_t k)
{
	return &r->jobs[k % r->room];
}

/* Find the chunk that is sent in a phase; the one received then is the one sent in the next. */
static char *chunk(const struct ring_sums *r, uint64_t k, int phase, size_t *bytes)
{
	const struct job *j = job(r, k);
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

	while (c->job < r->added) {
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

	if (r->out.job == r->added)
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

/* Whole chunks have a constant number of floats, so that the compiler can vectorise. */
static void add(float *restrict sum, const float *restrict x, size_t n)
{
	for (; n >= CHUNK; n -= CHUNK, sum += CHUNK, x += CHUNK)
		for (size_t i = 0; i < CHUNK; i++)
			sum[i] += x[i];
	for (size_t i = 0; i < n; i++)
		sum[i] += x[i];
}

static int recv_some(struct ring_sums *r, struct mlr_error *err)
{
	size_t bytes, left, want, whole;
	ssize_t got;
	char *to;
	int adds = r->in.phase < r->ranks - 1;

	if (r->in.job == r->added)
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
		add((float *)(to + r->in.at), (const float *)r->buffer, whole / sizeof(float));
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
	free((*r)->jobs);
	free((*r)->buffer);
	free(*r);
	*r = NULL;
}

/* Make room for one more job; those under way keep their places modulo room. */
static void make_room(struct ring_sums *r)
{
	uint64_t first = r->out.job < r->in.job ? r->out.job : r->in.job;
	size_t room = r->room ? 2 * r->room : 16;
	struct job *more;

	if (r->added - first < r->room)
		return;
	more = xreallocarray(NULL, room, sizeof(*more));
	for (uint64_t k = first; k < r->added; k++)
		more[k % room] = *job(r, k);
	free(r->jobs);
	r->jobs = more;
	r->room = room;
}

int ring_sums_add(void *sums, float *x, size_t n, struct mlr_error *err)
{
	struct ring_sums *r = sums;

	make_room(r);
	r->jobs[r->added++ % r->room] = (struct job){ x, n };
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
	return r->out.job == r->added && r->in.job == r->added;
}

void ring_sums_sleep(const struct ring_sums *r, int ms)
{
	struct pollfd p[] = { { .fd = r->in.job < r->added ? r->from : -1, .events = POLLIN },
		{ .fd = -1, .events = POLLOUT } };
	size_t bytes;

	if (r->out.job < r->added) {
		chunk(r, r->out.job, r->out.phase, &bytes);
		if (r->out.at < sendable(r, bytes))
			p[1].fd = r->to;
	}
	poll(p, ARRAY_LEN(p), ms);
}
