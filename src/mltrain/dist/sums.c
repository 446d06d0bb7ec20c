#include "dist/sums.h"

#define WHAT   "sum gradients"
#define LARGE  ((size_t)1 << 16) /* floats: a part this large is summed alone, in place */
#define BUCKET ((size_t)1 << 18) /* floats: a bucket of small parts this large is full */

void sums_queue_add(struct sums_queue *q, uint64_t first, float *x, size_t n)
{
	size_t room = q->room ? 2 * q->room : 16;
	struct sums_piece *more;

	if (q->added - first >= q->room) {
		more = xreallocarray(NULL, room, sizeof(*more));
		for (uint64_t k = first; k < q->added; k++)
			more[k % room] = q->v[k % q->room];
		free(q->v);
		q->v = more;
		q->room = room;
	}
	q->v[q->added++ % q->room] = (struct sums_piece){ x, n };
}

/* Whole chunks have a constant number of floats, so that the compiler can vectorise. */
void sums_plus(float *restrict sum, const float *restrict x, size_t n)
{
	for (; n >= SUMS_CHUNK; n -= SUMS_CHUNK, sum += SUMS_CHUNK, x += SUMS_CHUNK)
		for (size_t i = 0; i < SUMS_CHUNK; i++)
			sum[i] += x[i];
	for (size_t i = 0; i < n; i++)
		sum[i] += x[i];
}

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

struct sums {
	struct sums_by by;
	struct part *parts;
	size_t n_parts;
	struct bucket *buckets; /* the last one is filled when open is not 0 */
	size_t n_buckets, room;
	int open;
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

/* Return the floats to sum: those of the parts themselves, or copies of them. */
static float *gather(struct sums *s, struct bucket *b)
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

static void scatter(const struct sums *s, const struct bucket *b)
{
	const struct part *p = s->parts + b->first;
	const float *from = b->copy;

	for (size_t i = 0; i < b->parts; from += p[i++].n)
		memcpy(p[i].at, from, p[i].n * sizeof(*from));
}

static void start(struct sums *s)
{
	struct bucket *b = &s->buckets[s->n_buckets - 1];
	float *x = gather(s, b);

	s->open = 0;
	if (s->failed == 0)
		s->failed = s->by.add(s->by.carrier, x, b->n, &s->error);
}

static struct bucket *open_bucket(struct sums *s)
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

struct sums *sums_new(const struct sums_by *by)
{
	struct sums *s = xcalloc(1, sizeof(*s));

	s->by = *by;
	return s;
}

void sums_free(struct sums **s)
{
	if (!*s)
		return;
	for (size_t i = 0; i < (*s)->room; i++)
		free((*s)->buckets[i].copy);
	free((*s)->buckets);
	free((*s)->parts);
	free(*s);
	*s = NULL;
}

void sums_ready(struct sums *s, float *part, size_t count)
{
	struct bucket *b;

	if (!count)
		return;
	if (s->open && count >= LARGE)
		start(s);
	b = s->open ? &s->buckets[s->n_buckets - 1] : open_bucket(s);
	*xadd(s->parts, s->n_parts) = (struct part){ part, count };
	b->parts++;
	b->n += count;
	if (count >= LARGE || b->n >= BUCKET)
		start(s);
	sums_poll(s);
}

void sums_poll(struct sums *s)
{
	int r;

	if (s->failed < 0)
		return;
	r = s->by.advance(s->by.carrier, &s->error);
	if (r < 0)
		s->failed = r;
}

static int finish(struct sums *s, struct mlr_error *err)
{
	unsigned turns = 0;
	int r;

	if (s->failed < 0) {
		*err = s->error;
		return s->failed;
	}
	for (;;) {
		r = s->by.advance(s->by.carrier, err);
		if (r)
			return r < 0 ? r : 0;
		r = s->by.idle(s->by.ctx, &turns, err);
		if (r < 0)
			return mlr_wrap(err, WHAT);
	}
}

int sums_wait(struct sums *s, struct mlr_error *err)
{
	struct mlr_error unused = MLR_ERROR_INIT;
	int r;

	if (s->open)
		start(s);
	r = finish(s, err ? err : &unused);
	for (size_t i = 0; r == 0 && i < s->n_buckets; i++)
		if (s->buckets[i].copied)
			scatter(s, &s->buckets[i]);
	s->n_buckets = s->n_parts = 0;
	s->open = s->failed = 0;
	return r;
}
