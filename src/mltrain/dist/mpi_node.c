#include "dist/mpi_node.h"

#include "base/base.h"

struct mpi_node {
	MPI_Comm across;                  /* the ranks with this one's number on every node */
	MPI_Request requests[NODE_SLOTS]; /* of pieces being summed across nodes */
	struct node_sums *sums;
};

static int start(void *ctx, uint64_t k, float *x, size_t n, struct mlr_error *err)
{
	struct mpi_node *m = ctx;

	return mpi_check(MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, m->across,
				 &m->requests[k % NODE_SLOTS]),
		"sum gradients", err);
}

static int test(void *ctx, uint64_t k, struct mlr_error *err)
{
	struct mpi_node *m = ctx;
	int done = 0;
	int r = mpi_check(MPI_Test(&m->requests[k % NODE_SLOTS], &done, MPI_STATUS_IGNORE),
		"sum gradients", err);

	return r < 0 ? r : done;
}

/* Only this node's ranks know the file's name, which is removed once they all have it open. */
static int open_segment(int rank, MPI_Comm node, size_t size, int *fd, struct mlr_error *err)
{
	char path[NODE_SUMS_PATH_MAX] = "";
	int r;

	*fd = -1;
	if (rank == 0) {
		*fd = node_sums_segment(path, size);
		if (*fd < 0)
			path[0] = '\0';
	}
	r = mpi_check(MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, node), "share memory", err);
	if (r == 0 && rank && *path)
		*fd = node_sums_segment_of(path, size);
	MPI_Barrier(node);
	if (rank == 0 && *path)
		unlink(path);
	return r;
}

/* n->sums stays NULL without memory. */
static int share(
	struct mpi_node *n, int nodes, int rank, int ranks, MPI_Comm node, struct mlr_error *err)
{
	const struct node_across across = { n, start, test };
	auto_close int fd = -1;
	int r;

	if (getenv("MLTRAIN_NO_SHARED_MEMORY"))
		return 0;
	r = open_segment(rank, node, node_sums_size(ranks), &fd, err);
	if (r == 0 && fd >= 0)
		n->sums = node_sums_new(fd, rank, ranks, nodes > 1 ? &across : NULL);
	return r;
}

int mpi_node_new(struct mpi_ranks *m, MPI_Comm node, struct mpi_node **ret, struct mlr_error *err)
{
	struct mpi_node *n = xcalloc(1, sizeof(*n));
	int r, rank, ranks, all[2], mine[2];

	n->across = MPI_COMM_NULL;
	MPI_Comm_rank(node, &rank);
	MPI_Comm_size(node, &ranks);
	r = share(n, m->dist.ranks / ranks, rank, ranks, node, err);
	/* The fewest and, negated, the most ranks of a node; 0 without a segment. */
	mine[0] = n->sums ? ranks : 0;
	mine[1] = -ranks;
	if (r == 0)
		r = mpi_check(
			MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, m->all), "share memory", err);
	if (r == 0 && all[0] > 1 && all[0] == -all[1])
		r = mpi_check(MPI_Comm_split(m->all, rank, m->dist.rank, &n->across),
			"find the ranks of other nodes", err);
	if (r < 0 || n->across == MPI_COMM_NULL) {
		mpi_node_free(&n);
		*ret = NULL;
		return r;
	}
	*ret = n;
	return 0;
}

void mpi_node_free(struct mpi_node **n)
{
	if (!*n)
		return;
	if ((*n)->across != MPI_COMM_NULL)
		MPI_Comm_free(&(*n)->across);
	node_sums_free(&(*n)->sums);
	free(*n);
	*n = NULL;
}

struct node_sums *mpi_node_sums(struct mpi_node *n)
{
	return n->sums;
}
