#include "dist/mpi_sums.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "dist/mpi_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WHAT        "sum gradients"
#define LARGE       ((size_t)1 << 16) /* floats: a part this large is summed alone, in place */
#define BUCKET      ((size_t)1 << 18) /* floats: a bucket of small parts this large is full */
#define MESSAGE_MAX ((size_t)1 << 24) /* floats: MPI counts in int */

struct part {
	float *at;
	size_t n;
};

/* Parts that are summed together, in place if they are contiguous. */
struct bucket {
	size_t first, parts; /* of the sums' parts */
	size_t n;            /* floats */
	float *copy;         /* [copy_size], of parts that lie apart; kept from step to step */
	size_t copy_size;
	int copied;
};

struct mpi_sums {
	struct mpi_ranks *m;
	struct part *parts;
	size_t n_parts;
	struct bucket *buckets; /* the last one is filled when open is not 0 */
	size_t n_buckets, room;
	int open;
	MPI_Request *requests;
	int n_requests;
	int failed; /* this step's first failure, which error describes */
	struct mlr_error error;
};

static int one_piece(const struct part *p, size_t n)
{
	int up = 1, down = 1;

	for (size_t i = 1; i < n; i++) {
		up &= p[i].at == p[i - 1].at + p[i - 1].n;
		down &= p[i].at + p[i].n == p[i - 1].at;
	}
	return up || down;
}

/* The floats to sum: those of the parts themselves, or copies of them. */
static float *gather(struct mpi_sums *s, struct bucket *b)
{
	const struct part *p = s->parts + b->first;
	float *to;

	b->copied = !one_piece(p, b->parts);
	if (!b->copied)
		return p[0].at < p[b->parts - 1].at ? p[0].at : p[b->parts - 1].at;
	if (b->copy_size < b->n) {
		b->copy = xreallocarray(b->copy, b->n, sizeof(*b->copy));
		b->copy_size = b->n;
	}
	to = b->copy;
	for (size_t i = 0; i < b->parts; to += p[i++].n)
		memcpy(to, p[i].at, p[i].n * sizeof(*to));
	return b->copy;
}

static void scatter(const struct mpi_sums *s, const struct bucket *b)
{
	const struct part *p = s->parts + b->first;
	const float *from = b->copy;

	for (size_t i = 0; i < b->parts; from += p[i++].n)
		memcpy(p[i].at, from, p[i].n * sizeof(*from));
}

static void start(struct mpi_sums *s)
{
	struct bucket *b = &s->buckets[s->n_buckets - 1];
	float *x = gather(s, b);

	s->open = 0;
	if (s->m->node) {
		mpi_node_add(s->m->node, x, b->n);
		return;
	}
	for (size_t at = 0; at < b->n && s->failed == 0; at += MESSAGE_MAX) {
		size_t n = b->n - at < MESSAGE_MAX ? b->n - at : MESSAGE_MAX;

		s->requests = xgrow(s->requests, (size_t)s->n_requests, sizeof(*s->requests));
		s->failed = mpi_check(MPI_Iallreduce(MPI_IN_PLACE, x + at, (int)n, MPI_FLOAT,
					      MPI_SUM, s->m->all, &s->requests[s->n_requests]),
			WHAT, &s->error);
		s->n_requests += s->failed == 0;
	}
}

static struct bucket *open_bucket(struct mpi_sums *s)
{
	struct bucket *b;

	if (s->n_buckets == s->room) {
		s->buckets = xreallocarray(s->buckets, s->room + 8, sizeof(*s->buckets));
		memset(s->buckets + s->room, 0, 8 * sizeof(*s->buckets));
		s->room += 8;
	}
	b = &s->buckets[s->n_buckets++];
	b->first = s->n_parts;
	b->parts = b->n = 0;
	s->open = 1;
	return b;
}

struct mpi_sums *mpi_sums_new(struct mpi_ranks *m)
{
	struct mpi_sums *s = xcalloc(1, sizeof(*s));

	s->m = m;
	return s;
}

void mpi_sums_free(struct mpi_sums **s)
{
	if (!*s)
		return;
	for (size_t i = 0; i < (*s)->room; i++)
		free((*s)->buckets[i].copy);
	free((*s)->buckets);
	free((*s)->parts);
	free((*s)->requests);
	free(*s);
	*s = NULL;
}

void mpi_sums_ready(struct mpi_sums *s, float *part, size_t count)
{
	struct bucket *b;

	if (!count)
		return;
	if (s->open && count >= LARGE)
		start(s);
	b = s->open ? &s->buckets[s->n_buckets - 1] : open_bucket(s);
	s->parts = xgrow(s->parts, s->n_parts, sizeof(*s->parts));
	s->parts[s->n_parts++] = (struct part){ part, count };
	b->parts++;
	b->n += count;
	if (count >= LARGE || b->n >= BUCKET)
		start(s);
	mpi_sums_poll(s);
}

void mpi_sums_poll(struct mpi_sums *s)
{
	int done;

	if (s->failed < 0)
		return;
	if (s->m->node && (done = mpi_node_advance(s->m->node, &s->error)) < 0)
		s->failed = done;
	else if (s->n_requests)
		s->failed = mpi_check(
			MPI_Testall(s->n_requests, s->requests, &done, MPI_STATUSES_IGNORE), WHAT,
			&s->error);
}

static int finish(struct mpi_sums *s, struct mlr_error *err)
{
	unsigned turns = 0;
	int r;

	if (s->failed < 0) {
		*err = s->error;
		return s->failed;
	}
	if (!s->m->node)
		return mpi_complete(s->m, s->n_requests, s->requests, WHAT, err);
	for (;;) {
		r = mpi_node_advance(s->m->node, err);
		if (r)
			return r < 0 ? r : 0;
		r = mpi_idle(s->m, &turns, err);
		if (r < 0)
			return mlr_wrap(err, WHAT);
	}
}

int mpi_sums_wait(struct mpi_sums *s, struct mlr_error *err)
{
	struct mlr_error unused;
	int r;

	if (s->open)
		start(s);
	r = finish(s, err ? err : &unused);
	for (size_t i = 0; r == 0 && i < s->n_buckets; i++)
		if (s->buckets[i].copied)
			scatter(s, &s->buckets[i]);
	s->n_requests = 0;
	s->n_buckets = s->n_parts = 0;
	return r;
}
