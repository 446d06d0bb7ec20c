/*
 * Sums among the ranks of one node through shared memory, then sums of these across nodes.
 *
 * Open MPI's non-blocking sums send everything to one rank and back, three times as slow here as
 * its blocking ones. The blocking ones can't be watched or abandoned. Here every rank sums its
 * slice of each piece from all the others' memory, which copies no more than necessary.
 *
 *     piece k      rank 0's memory [slice 0][slice 1]      rank 1's memory [slice 0][slice 1]
 *     give         copies slice 1 to its slot              copies slice 0 to its slot
 *     sum          slice 0 = own + rank 1's slot           slice 1 = rank 0's slot + own
 *     (across)     slice 0 over all nodes' ranks 0         slice 1 over all nodes' ranks 1
 *     take         copies slice 1 from rank 1's slot       copies slice 0 from rank 0's slot
 *
 * Sums follow the order of ranks, so they have the same bits on every rank and in every run.
 */

#include "dist/sums.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define SLOTS      NODE_SLOTS
#define PIECE_MAX  ((size_t)1 << 18) /* floats: a slot stays in the caches */
#define SEGMENT    ((size_t)1 << 24) /* floats in all slots of all ranks, at most */
#define CACHE_LINE 64

/* A stage that a piece has reached on a rank. */
enum stage {
	GIVEN,  /* copied to its slots, for the others to sum */
	SUMMED, /* the sum of its slice is in its slot */
	TAKEN,  /* it needs no slots of others any more */
	STAGES
};

/* A rank's progress, in pieces since the program's start. Each count has its own cache line, since
 * other ranks poll it. */
struct progress {
	struct {
		_Alignas(CACHE_LINE) _Atomic uint64_t pieces;
	} of[STAGES];
};

struct node_sums {
	int rank, ranks;           /* on this node */
	struct node_across across; /* all zero: there is one node */
	void *segment;
	size_t size, piece_max;
	struct progress *progress; /* [ranks] */
	float *slots;              /* [ranks][SLOTS][piece_max] */
	struct sums_queue pieces;  /* those not yet taken */
	uint64_t given, started, summed, taken;
};

static size_t piece_max_of(int ranks)
{
	size_t most = SEGMENT / SLOTS / (size_t)ranks;

	return most < PIECE_MAX ? most : PIECE_MAX;
}

static size_t slice_at(const struct node_sums *n, size_t count, int rank)
{
	return count * (size_t)rank / (size_t)n->ranks;
}

static size_t slice_size(const struct node_sums *n, size_t count, int rank)
{
	return slice_at(n, count, rank + 1) - slice_at(n, count, rank);
}

static const struct sums_piece *piece(const struct node_sums *n, uint64_t k)
{
	return &n->pieces.v[k % n->pieces.room];
}

static float *slot(const struct node_sums *n, int rank, uint64_t k)
{
	return n->slots + ((size_t)rank * SLOTS + k % SLOTS) * n->piece_max;
}

/* Have all ranks come past piece k in a stage, or `ahead` pieces less far? */
static int all_past(const struct node_sums *n, enum stage stage, uint64_t k, uint64_t ahead)
{
	for (int r = 0; r < n->ranks; r++)
		if (atomic_load_explicit(&n->progress[r].of[stage].pieces, memory_order_acquire) +
				ahead <=
			k)
			return 0;
	return 1;
}

static void publish(const struct node_sums *n, enum stage stage, uint64_t pieces)
{
	atomic_store_explicit(&n->progress[n->rank].of[stage].pieces, pieces, memory_order_release);
}

static void give(struct node_sums *n)
{
	const struct sums_piece *p = piece(n, n->given);
	float *to = slot(n, n->rank, n->given);
	size_t at = slice_at(n, p->n, n->rank), end = slice_at(n, p->n, n->rank + 1);

	memcpy(to, p->x, at * sizeof(*to));
	memcpy(to + end, p->x + end, (p->n - end) * sizeof(*to));
	publish(n, GIVEN, ++n->given);
}

/* Sum in place in x: other ranks read the result's place in the slot only after it is published. */
static void sum_slice(struct node_sums *n, uint64_t k)
{
	const struct sums_piece *p = piece(n, k);
	size_t from = slice_at(n, p->n, n->rank), end = slice_at(n, p->n, n->rank + 1);
	float sum[SUMS_CHUNK];

	for (size_t at = from; at < end; at += SUMS_CHUNK) {
		size_t count = end - at < SUMS_CHUNK ? end - at : SUMS_CHUNK;

		for (int r = 0; r < n->ranks; r++) {
			const float *x = r == n->rank ? p->x + at : slot(n, r, k) + at;

			if (r == 0)
				memcpy(sum, x, count * sizeof(*sum));
			else
				sums_plus(sum, x, count);
		}
		memcpy(p->x + at, sum, count * sizeof(*sum));
		if (!n->across.start)
			memcpy(slot(n, n->rank, k) + at, sum, count * sizeof(*sum));
	}
}

/* With several nodes, begin to sum the slice across them. Returns 0 or -EIO. */
static int start_sum(struct node_sums *n, struct mlr_error *err)
{
	const struct sums_piece *p = piece(n, n->started);
	int r = 0;

	sum_slice(n, n->started);
	if (n->across.start)
		r = n->across.start(n->across.ctx, n->started, p->x + slice_at(n, p->n, n->rank),
			slice_size(n, p->n, n->rank), err);
	n->started++;
	return r;
}

/* Returns 1 if the slice is summed across all nodes, 0 if not yet, or -EIO. */
static int end_sum(struct node_sums *n, struct mlr_error *err)
{
	const struct sums_piece *p = piece(n, n->summed);
	size_t at = slice_at(n, p->n, n->rank);

	if (n->across.test) {
		int r = n->across.test(n->across.ctx, n->summed, err);

		if (r <= 0)
			return r;
		memcpy(slot(n, n->rank, n->summed) + at, p->x + at,
			slice_size(n, p->n, n->rank) * sizeof(float));
	}
	publish(n, SUMMED, ++n->summed);
	return 1;
}

static void take(struct node_sums *n)
{
	const struct sums_piece *p = piece(n, n->taken);

	for (int r = 0; r < n->ranks; r++) {
		size_t at = slice_at(n, p->n, r);

		if (r != n->rank)
			memcpy(p->x + at, slot(n, r, n->taken) + at,
				slice_size(n, p->n, r) * sizeof(float));
	}
	publish(n, TAKEN, ++n->taken);
}

/* Do one stage of a piece, the latest stage first, since it frees slots. Returns 1 if one was due,
 * else 0; -EIO. */
static int act(struct node_sums *n, struct mlr_error *err)
{
	int r;

	if (n->taken < n->summed && all_past(n, SUMMED, n->taken, 0)) {
		take(n);
		return 1;
	}
	if (n->summed < n->started) {
		r = end_sum(n, err);
		if (r)
			return r;
	}
	if (n->started < n->given && all_past(n, GIVEN, n->started, 0)) {
		TRY(start_sum(n, err));
		return 1;
	}
	/* Piece k - SLOTS must have left its slots before piece k is written there. */
	if (n->given < n->pieces.added && all_past(n, TAKEN, n->given, SLOTS)) {
		give(n);
		return 1;
	}
	return 0;
}

size_t node_sums_size(int ranks)
{
	size_t piece = piece_max_of(ranks);

	return (size_t)ranks * (sizeof(struct progress) + SLOTS * piece * sizeof(float));
}

int node_sums_segment(char path[NODE_SUMS_PATH_MAX], size_t size)
{
	auto_free char *name = file_temp_name(NODE_SUMS_PATH);
	auto_close int fd = -1;

	file_replace_sweep(AT_FDCWD, NODE_SUMS_PATH);
	snprintf(path, NODE_SUMS_PATH_MAX, "%s", name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) != 0) {
		if (fd >= 0)
			unlink(path);
		return -1;
	}
	return take_fd(&fd);
}

int node_sums_segment_of(const char *path, size_t size)
{
	auto_close int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != (off_t)size || st.st_uid != geteuid())
		return -1;
	return take_fd(&fd);
}

struct node_sums *node_sums_new(int fd, int rank, int ranks, const struct node_across *across)
{
	struct node_sums *n = xcalloc(1, sizeof(*n));

	n->rank = rank;
	n->ranks = ranks;
	n->piece_max = piece_max_of(ranks);
	n->size = node_sums_size(ranks);
	n->segment = mmap(NULL, n->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (n->segment == MAP_FAILED) {
		free(n);
		return NULL;
	}
	n->progress = n->segment;
	n->slots = (float *)((char *)n->segment + (size_t)ranks * sizeof(struct progress));
	if (across)
		n->across = *across;
	return n;
}

void node_sums_free(struct node_sums **n)
{
	if (!*n)
		return;
	munmap((*n)->segment, (*n)->size);
	free((*n)->pieces.v);
	free(*n);
	*n = NULL;
}

int node_sums_add(void *sums, float *x, size_t count, struct mlr_error *err)
{
	struct node_sums *n = sums;

	for (size_t at = 0; at < count; at += n->piece_max)
		sums_queue_add(&n->pieces, n->taken, x + at,
			count - at < n->piece_max ? count - at : n->piece_max);
	return 0;
}

int node_sums_advance(void *sums, struct mlr_error *err)
{
	struct node_sums *n = sums;
	int r;

	do
		r = act(n, err);
	while (r > 0);
	return r < 0 ? r : n->taken == n->pieces.added;
}
