#include "dist/mpi_node.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SLOTS      4
#define PIECE_MAX  ((size_t)1 << 18) /* floats: a slot stays in the caches */
#define SEGMENT    ((size_t)1 << 24) /* floats in all slots of all ranks, at most */
#define CHUNK      1024              /* floats summed at a time */
#define CACHE_LINE 64

/* A rank's progress, in pieces since the program's start. Each field has its own cache line, since
 * other ranks poll it. */
struct progress {
	_Alignas(
		CACHE_LINE) _Atomic uint64_t given; /* copied to its slots, for the others to sum */
	_Alignas(CACHE_LINE) _Atomic uint64_t summed; /* the sum of its slice is in its slot */
	_Alignas(CACHE_LINE) _Atomic uint64_t taken;  /* needs no slots of others any more */
};

struct piece {
	float *x;
	size_t n;
};

struct mpi_node {
	int rank, ranks; /* on this node */
	int nodes;
	MPI_Comm across;             /* the ranks with this one's number on every node */
	MPI_Request requests[SLOTS]; /* of pieces being summed across nodes */
	void *segment;
	size_t size, piece_max;
	struct progress *progress; /* [ranks] */
	float *slots;              /* [ranks][SLOTS][piece_max] */
	struct piece *pieces;      /* [room], those not yet taken, by number modulo room */
	size_t room;
	uint64_t added, given, started, summed, taken;
};

static size_t slice_at(const struct mpi_node *n, size_t count, int rank)
{
	return count * (size_t)rank / (size_t)n->ranks;
}

static size_t slice_size(const struct mpi_node *n, size_t count, int rank)
{
	return slice_at(n, count, rank + 1) - slice_at(n, count, rank);
}

static struct piece *piece(const struct mpi_node *n, uint64_t k)
{
	return &n->pieces[k % n->room];
}

static float *slot(const struct mpi_node *n, int rank, uint64_t k)
{
	return n->slots + ((size_t)rank * SLOTS + k % SLOTS) * n->piece_max;
}

/* Piece k - SLOTS must have left its slots before piece k is written there. */
static int can_give(const struct mpi_node *n)
{
	for (int r = 0; r < n->ranks; r++)
		if (atomic_load_explicit(&n->progress[r].taken, memory_order_acquire) + SLOTS <=
			n->given)
			return 0;
	return 1;
}

static void give(struct mpi_node *n)
{
	const struct piece *p = piece(n, n->given);
	float *to = slot(n, n->rank, n->given);
	size_t at = slice_at(n, p->n, n->rank), end = slice_at(n, p->n, n->rank + 1);

	memcpy(to, p->x, at * sizeof(*to));
	memcpy(to + end, p->x + end, (p->n - end) * sizeof(*to));
	n->given++;
	atomic_store_explicit(&n->progress[n->rank].given, n->given, memory_order_release);
}

static int all_gave(const struct mpi_node *n, uint64_t k)
{
	for (int r = 0; r < n->ranks; r++)
		if (atomic_load_explicit(&n->progress[r].given, memory_order_acquire) <= k)
			return 0;
	return 1;
}

/* Whole chunks have a constant number of floats, so that the compiler can vectorise. */
static void add(float *restrict sum, const float *restrict x, size_t n)
{
	if (n == CHUNK)
		for (size_t i = 0; i < CHUNK; i++)
			sum[i] += x[i];
	else
		for (size_t i = 0; i < n; i++)
			sum[i] += x[i];
}

/* Sum in place in x: other ranks read the result's place in the slot only after it is published. */
static void sum_slice(struct mpi_node *n, uint64_t k)
{
	const struct piece *p = piece(n, k);
	size_t from = slice_at(n, p->n, n->rank), end = slice_at(n, p->n, n->rank + 1);
	float sum[CHUNK];

	for (size_t at = from; at < end; at += CHUNK) {
		size_t count = end - at < CHUNK ? end - at : CHUNK;

		for (int r = 0; r < n->ranks; r++) {
			const float *x = r == n->rank ? p->x + at : slot(n, r, k) + at;

			if (r == 0)
				memcpy(sum, x, count * sizeof(*sum));
			else
				add(sum, x, count);
		}
		memcpy(p->x + at, sum, count * sizeof(*sum));
		if (n->nodes == 1)
			memcpy(slot(n, n->rank, k) + at, sum, count * sizeof(*sum));
	}
}

/* With several nodes, begin to sum the slice across them. Returns 0 or -EIO. */
static int start_sum(struct mpi_node *n, struct mlr_error *err)
{
	const struct piece *p = piece(n, n->started);
	int r = 0;

	sum_slice(n, n->started);
	if (n->nodes > 1)
		r = mpi_check(MPI_Iallreduce(MPI_IN_PLACE, p->x + slice_at(n, p->n, n->rank),
				      (int)slice_size(n, p->n, n->rank), MPI_FLOAT, MPI_SUM,
				      n->across, &n->requests[n->started % SLOTS]),
			"sum gradients", err);
	n->started++;
	return r;
}

/* Returns 1 if the slice is summed across all nodes, 0 if not yet, or -EIO. */
static int end_sum(struct mpi_node *n, struct mlr_error *err)
{
	const struct piece *p = piece(n, n->summed);
	size_t at = slice_at(n, p->n, n->rank);
	int done = 1, r;

	if (n->nodes > 1) {
		r = mpi_check(MPI_Test(&n->requests[n->summed % SLOTS], &done, MPI_STATUS_IGNORE),
			"sum gradients", err);
		if (r < 0 || !done)
			return r;
		memcpy(slot(n, n->rank, n->summed) + at, p->x + at,
			slice_size(n, p->n, n->rank) * sizeof(float));
	}
	n->summed++;
	atomic_store_explicit(&n->progress[n->rank].summed, n->summed, memory_order_release);
	return 1;
}

static int can_take(const struct mpi_node *n)
{
	for (int r = 0; r < n->ranks; r++)
		if (atomic_load_explicit(&n->progress[r].summed, memory_order_acquire) <= n->taken)
			return 0;
	return 1;
}

static void take(struct mpi_node *n)
{
	const struct piece *p = piece(n, n->taken);

	for (int r = 0; r < n->ranks; r++) {
		size_t at = slice_at(n, p->n, r);

		if (r != n->rank)
			memcpy(p->x + at, slot(n, r, n->taken) + at,
				slice_size(n, p->n, r) * sizeof(float));
	}
	n->taken++;
	atomic_store_explicit(&n->progress[n->rank].taken, n->taken, memory_order_release);
}

/* Do one stage of a piece, the latest stage first, since it frees slots. Returns 1 if one was due,
 * else 0; -EIO. */
static int act(struct mpi_node *n, struct mlr_error *err)
{
	int r;

	if (n->taken < n->summed && can_take(n)) {
		take(n);
		return 1;
	}
	if (n->summed < n->started) {
		r = end_sum(n, err);
		if (r)
			return r;
	}
	if (n->started < n->given && all_gave(n, n->started)) {
		r = start_sum(n, err);
		return r < 0 ? r : 1;
	}
	if (n->given < n->added && can_give(n)) {
		give(n);
		return 1;
	}
	return 0;
}

/* Only this node's ranks know the file's name, which is removed once they all have it open. */
static int open_segment(int rank, MPI_Comm node, size_t size, int *fd, struct mlr_error *err)
{
	char path[] = "/dev/shm/mltrain.XXXXXX";
	struct stat st;
	int r;

	*fd = -1;
	if (rank == 0) {
		*fd = mkostemp(path, O_CLOEXEC);
		if (*fd < 0)
			path[0] = '\0';
		else if (posix_fallocate(*fd, 0, (off_t)size) != 0) {
			close(*fd);
			*fd = -1;
		}
	}
	r = mpi_check(MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, node), "share memory", err);
	if (r == 0 && rank && *path)
		*fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (*fd >= 0 &&
		(fstat(*fd, &st) < 0 || st.st_size != (off_t)size || st.st_uid != geteuid())) {
		close(*fd);
		*fd = -1;
	}
	MPI_Barrier(node);
	if (rank == 0 && *path)
		unlink(path);
	return r;
}

static int map_segment(struct mpi_node *n, MPI_Comm node, struct mlr_error *err)
{
	auto_close int fd = -1;
	size_t head = (size_t)n->ranks * sizeof(struct progress);
	int r;

	if (getenv("MLTRAIN_NO_SHARED_MEMORY"))
		return 0;
	n->piece_max = SEGMENT / SLOTS / (size_t)n->ranks;
	n->piece_max = n->piece_max < PIECE_MAX ? n->piece_max : PIECE_MAX;
	n->size = head + (size_t)n->ranks * SLOTS * n->piece_max * sizeof(float);
	r = open_segment(n->rank, node, n->size, &fd, err);
	if (r < 0 || fd < 0)
		return r;
	n->segment = mmap(NULL, n->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (n->segment == MAP_FAILED)
		n->segment = NULL;
	n->progress = n->segment;
	n->slots = n->segment ? (float *)((char *)n->segment + head) : NULL;
	return 0;
}

int mpi_node_new(struct mpi_ranks *m, MPI_Comm node, struct mpi_node **ret, struct mlr_error *err)
{
	struct mpi_node *n = xcalloc(1, sizeof(*n));
	int r, all[2], mine[2];

	n->across = MPI_COMM_NULL;
	MPI_Comm_rank(node, &n->rank);
	MPI_Comm_size(node, &n->ranks);
	r = map_segment(n, node, err);
	/* The fewest and, negated, the most ranks of a node; 0 without a segment. */
	mine[0] = n->segment ? n->ranks : 0;
	mine[1] = -n->ranks;
	if (r == 0)
		r = mpi_check(
			MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, m->all), "share memory", err);
	if (r == 0 && all[0] > 1 && all[0] == -all[1])
		r = mpi_check(MPI_Comm_split(m->all, n->rank, m->dist.rank, &n->across),
			"find the ranks of other nodes", err);
	if (r < 0 || n->across == MPI_COMM_NULL) {
		mpi_node_free(&n);
		*ret = NULL;
		return r;
	}
	MPI_Comm_size(n->across, &n->nodes);
	*ret = n;
	return 0;
}

void mpi_node_free(struct mpi_node **n)
{
	if (!*n)
		return;
	if ((*n)->across != MPI_COMM_NULL)
		MPI_Comm_free(&(*n)->across);
	if ((*n)->segment)
		munmap((*n)->segment, (*n)->size);
	free((*n)->pieces);
	free(*n);
	*n = NULL;
}

/* Make room for one more piece; the pieces under way keep their places modulo room. */
static void make_room(struct mpi_node *n)
{
	size_t room = n->room ? 2 * n->room : 16;
	struct piece *more;

	if (n->added - n->taken < n->room)
		return;
	more = xreallocarray(NULL, room, sizeof(*more));
	for (uint64_t k = n->taken; k < n->added; k++)
		more[k % room] = *piece(n, k);
	free(n->pieces);
	n->pieces = more;
	n->room = room;
}

void mpi_node_add(struct mpi_node *n, float *x, size_t count)
{
	for (size_t at = 0; at < count; at += n->piece_max) {
		make_room(n);
		*piece(n, n->added++) = (struct piece){ x + at,
			count - at < n->piece_max ? count - at : n->piece_max };
	}
}

int mpi_node_advance(struct mpi_node *n, struct mlr_error *err)
{
	int r;

	do
		r = act(n, err);
	while (r > 0);
	return r < 0 ? r : n->taken == n->added;
}
