/* The plugin mltrain-mpi.so: ranks of an MPI program (MPI 3.1; made with Open MPI 4.1). */
#include "config.h"
#include "dist/dist.h"
#include "dist/peers.h"
#include "dist/sums.h"

#include <mpi.h>
#include <sched.h>

#define SPINS         1000   /* about 0.1 ms; longer waits yield the CPU */
#define LOOK_MASK     0xfffu /* turns of waiting between looks at the clock */
#define GRACE_US      1000000
#define PATIENCE_MS   10000 /* a checkpoint on a slow disk takes seconds */
#define LATE_EVERY_MS 200
#define BYTES_MAX     INT_MAX           /* MPI counts in int */
#define MESSAGE_MAX   ((size_t)1 << 24) /* floats */

struct mpi_node {
	MPI_Comm across;                  /* the ranks with this one's number on every node */
	MPI_Request requests[NODE_SLOTS]; /* of pieces being summed across nodes */
	struct node_sums *sums;
};

struct mpi_ranks {
	struct dist dist; /* first, so that both have the same address */
	MPI_Comm all;     /* a duplicate of MPI_COMM_WORLD */
	struct peers *peers;
	struct mpi_node *node; /* NULL if the ranks of a node share no memory */
	struct sums *sums;
	MPI_Request *requests; /* of sums of gradients under way */
	int n_requests;
	int64_t late_at_ms; /* when to look next for the rank that is late */
};

/* Returns -EIO with MPI's words, unless code is MPI_SUCCESS. */
static int check(int code, const char *what, struct mlr_error *err)
{
	char words[MPI_MAX_ERROR_STRING] = "unknown error";
	int n;

	if (code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(code, words, &n);
	return mlr_fail(err, EIO, "%s over %s: %s", what, "MPI", words);
}

static void tell_late(struct mpi_ranks *m, int first)
{
	int64_t now = mlr_now_ms();
	char words[PEERS_WORDS];

	if (first)
		m->late_at_ms = now + PATIENCE_MS;
	if (now < m->late_at_ms || !m->dist.warn)
		return;
	m->late_at_ms = now + LATE_EVERY_MS;
	if (peers_late(m->peers, now, words))
		m->dist.warn(words);
}

/* Yield the CPU, now and then check the other ranks, and name a rank that is ten seconds late
 * (struct exchange's idle). */
static int idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	struct mpi_ranks *m = ctx;

	if (++*turns < SPINS)
		return 0;
	sched_yield();
	if (*turns & LOOK_MASK)
		return 0;
	tell_late(m, *turns == LOOK_MASK + 1);
	if (peers_look(m->peers, NULL) == 0)
		return 0;
	usleep(GRACE_US); /* a launcher that now ends all ranks reports more than we can */
	return peers_look(m->peers, err);
}

/* Wait until a request, which a call began with this result, is complete. */
static int complete(struct mpi_ranks *m, int code, MPI_Request *request, const char *what,
	struct mlr_error *err)
{
	unsigned turns = 0;
	int done = 0, r;

	TRY(check(code, what, err));
	for (;;) {
		TRY(check(MPI_Test(request, &done, MPI_STATUS_IGNORE), what, err));
		if (done)
			return 0;
		r = idle(m, &turns, err);
		if (r < 0)
			return mlr_wrap(err, "%s", what);
	}
}

static int too_many(const char *what, size_t n, struct mlr_error *err)
{
	return mlr_fail(err, EIO, "%s: %zu at once are more than MPI counts", what, n);
}

static void ready(void *ctx, float *part, size_t count)
{
	sums_ready(((struct mpi_ranks *)ctx)->sums, part, count);
}

static void poll(void *ctx)
{
	sums_poll(((struct mpi_ranks *)ctx)->sums);
}

static int wait_sums(void *ctx, struct mlr_error *err)
{
	return sums_wait(((struct mpi_ranks *)ctx)->sums, err);
}

static int sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct mpi_ranks *m = ctx;
	MPI_Request request;

	if (n > BYTES_MAX)
		return too_many("sum", n, err);
	return complete(m,
		MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_SUM, m->all, &request),
		&request, "sum", err);
}

static int broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct mpi_ranks *m = ctx;
	MPI_Request request;

	if (bytes > BYTES_MAX)
		return too_many("broadcast bytes", bytes, err);
	return complete(m, MPI_Ibcast(x, (int)bytes, MPI_BYTE, 0, m->all, &request), &request,
		"broadcast", err);
}

static int gather(struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err)
{
	struct mpi_ranks *m = (struct mpi_ranks *)d;
	MPI_Request request;

	if (bytes > BYTES_MAX)
		return too_many("gather bytes", bytes, err);
	return complete(m,
		MPI_Igather(
			from, (int)bytes, MPI_BYTE, to, (int)bytes, MPI_BYTE, 0, m->all, &request),
		&request, "gather", err);
}

/* --- sums of gradients --- */

static int across_start(void *ctx, uint64_t k, float *x, size_t n, struct mlr_error *err)
{
	struct mpi_node *m = ctx;

	return check(MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, m->across,
			     &m->requests[k % NODE_SLOTS]),
		"sum gradients", err);
}

static int across_test(void *ctx, uint64_t k, struct mlr_error *err)
{
	struct mpi_node *m = ctx;
	int done = 0;

	TRY(check(MPI_Test(&m->requests[k % NODE_SLOTS], &done, MPI_STATUS_IGNORE), "sum gradients",
		err));
	return done;
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
	r = check(MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, node), "share memory", err);
	if (r == 0 && rank && *path)
		*fd = node_sums_segment_of(path, size);
	MPI_Barrier(node);
	if (rank == 0 && *path)
		unlink(path);
	return r;
}

/* Make the node's sums; they stay NULL without memory. */
static int share(
	struct mpi_node *n, int nodes, int rank, int ranks, MPI_Comm node, struct mlr_error *err)
{
	const struct node_across across = { n, across_start, across_test };
	auto_close int fd = -1;
	int r;

	if (getenv("MLTRAIN_NO_SHARED_MEMORY"))
		return 0;
	r = open_segment(rank, node, node_sums_size(ranks), &fd, err);
	if (r == 0 && fd >= 0)
		n->sums = node_sums_new(fd, rank, ranks, nodes > 1 ? &across : NULL);
	return r;
}

static void node_free(struct mpi_node **n)
{
	if (!*n)
		return;
	if ((*n)->across != MPI_COMM_NULL)
		MPI_Comm_free(&(*n)->across);
	node_sums_free(&(*n)->sums);
	free(*n);
	*n = NULL;
}

/*
 * Share memory with the ranks of this node. Called by all ranks of all nodes.
 *
 * Returns 0, with *ret NULL if sharing is useless or impossible: one rank per node, nodes with
 * different numbers of ranks, no room in /dev/shm, containers that do not share it. -EIO if MPI
 * fails.
 */
static int node_new(
	struct mpi_ranks *m, MPI_Comm node, struct mpi_node **ret, struct mlr_error *err)
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
		r = check(
			MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, m->all), "share memory", err);
	if (r == 0 && all[0] > 1 && all[0] == -all[1])
		r = check(MPI_Comm_split(m->all, rank, m->dist.rank, &n->across),
			"find the ranks of other nodes", err);
	if (r < 0 || n->across == MPI_COMM_NULL) {
		node_free(&n);
		*ret = NULL;
		return r;
	}
	*ret = n;
	return 0;
}

/* Sum by messages, where the ranks of a node share no memory. */
static int message_add(void *ctx, float *x, size_t count, struct mlr_error *err)
{
	struct mpi_ranks *m = ctx;
	int r = 0;

	for (size_t at = 0; at < count && r == 0; at += MESSAGE_MAX) {
		size_t n = count - at < MESSAGE_MAX ? count - at : MESSAGE_MAX;

		m->requests = xgrow(m->requests, (size_t)m->n_requests, sizeof(*m->requests));
		r = check(MPI_Iallreduce(MPI_IN_PLACE, x + at, (int)n, MPI_FLOAT, MPI_SUM, m->all,
				  &m->requests[m->n_requests]),
			"sum gradients", err);
		m->n_requests += r == 0;
	}
	return r;
}

static int message_advance(void *ctx, struct mlr_error *err)
{
	struct mpi_ranks *m = ctx;
	int done = 0;
	int r = check(MPI_Testall(m->n_requests, m->requests, &done, MPI_STATUSES_IGNORE),
		"sum gradients", err);

	if (r == 0 && done)
		m->n_requests = 0;
	return r < 0 ? r : done;
}

static void free_ranks(struct mpi_ranks *m)
{
	sums_free(&m->sums);
	node_free(&m->node);
	peers_free(&m->peers);
	free(m->requests);
	free(m);
}

static void close_ranks(struct dist *d)
{
	struct mpi_ranks *m = (struct mpi_ranks *)d;

	node_free(&m->node);
	MPI_Comm_free(&m->all);
	MPI_Finalize();
	free_ranks(m);
}

static void abort_ranks(struct dist *d, int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
	_exit(status); /* in case the launcher did not end this process */
}

static const struct dist_ops ops = { gather, close_ranks, abort_ranks };

/* Silence Open MPI's warnings about the machine's devices, which do not matter to training. Users
 * who need them set these variables themselves. */
static void be_quiet(void)
{
	static const char *const settings[][2] = {
		{ "OMPI_MCA_btl_base_warn_component_unused", "0" },
		{ "OMPI_MCA_mca_base_component_show_load_errors", "0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		setenv(settings[i][0], settings[i][1], 0);
}

/* Only the training thread calls MPI; others compute (MPI 3.1, 12.4.3). */
static int start_mpi(struct mlr_error *err)
{
	int level;

	be_quiet();
	TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "start", err));
	if (level < MPI_THREAD_FUNNELED)
		return mlr_fail(err, EIO, "MPI was built without support for threads");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	return 0;
}

/* Gather every rank's place, so that each rank can watch its neighbours. */
static int meet(struct mpi_ranks *m, struct mlr_error *err)
{
	int r, offered;
	struct peer self = peer_self(m->dist.rank, &offered);
	auto_free struct peer *all = xcalloc((size_t)m->dist.ranks, sizeof(*all));
	MPI_Comm node;

	TRY(check(MPI_Allgather(&self, sizeof(self), MPI_BYTE, all, sizeof(self), MPI_BYTE, m->all),
		"meet the other ranks", err));
	m->peers = peers_new(all, m->dist.ranks, &self, offered);
	TRY(check(MPI_Comm_split_type(m->all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
		"find the ranks of this node", err));
	MPI_Comm_rank(node, &m->dist.local_rank);
	MPI_Comm_size(node, &m->dist.local_ranks);
	r = node_new(m, node, &m->node, err);
	MPI_Comm_free(&node);
	return r;
}

static int join(struct mpi_ranks *m, struct mlr_error *err)
{
	const struct sums_by messages = { m, message_add, message_advance, m, idle };
	struct dist *d = &m->dist;

	TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &m->all), "copy the communicator", err));
	MPI_Comm_rank(m->all, &d->rank);
	MPI_Comm_size(m->all, &d->ranks);
	TRY(meet(m, err));
	m->sums = sums_new(m->node ? &(struct sums_by){ m->node->sums, node_sums_add,
					     node_sums_advance, m, idle }
				   : &messages);
	d->name = "mpi";
	d->ops = &ops;
	d->exchange = (struct exchange){ .rank = d->rank,
		.ranks = d->ranks,
		.ctx = m,
		.ready = ready,
		.poll = poll,
		.wait = wait_sums,
		.sum = sum,
		.broadcast = broadcast,
		.idle = idle,
		.local_rank = d->local_rank,
		.local_ranks = d->local_ranks };
	return 0;
}

static int open_ranks(struct dist **ret, struct mlr_error *err)
{
	struct mpi_ranks *m;
	int r;

	if (start_mpi(err) < 0)
		return mlr_pass(err, EPROTO, err->text);
	m = xcalloc(1, sizeof(*m));
	r = join(m, err);
	if (r < 0) {
		free_ranks(m);
		return mlr_pass(err, EPROTO, err->text);
	}
	*ret = &m->dist;
	return 0;
}

__attribute__((visibility("default"))) extern const struct dist_plugin mltrain_mpi;

const struct dist_plugin mltrain_mpi = { .plugin = { PACKAGE_VERSION }, .open = open_ranks };
