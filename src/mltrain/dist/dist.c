#include "dist/dist.h"

/* A single rank has nothing to add: every sum stays as it is. */

static void ready(void *ctx, float *part, size_t count)
{
}

static void poll(void *ctx)
{
}

static int wait_for_nobody(void *ctx, struct mlr_error *err)
{
	return 0;
}

static int sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	return 0;
}

static int broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	return 0;
}

static int idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	return 0;
}

static int gather(struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err)
{
	memcpy(to, from, bytes);
	return 0;
}

static void close_alone(struct dist *d)
{
	free(d);
}

static void abort_alone(struct dist *d, int status)
{
}

static const struct dist_ops alone = { gather, close_alone, abort_alone };

static struct dist *open_alone(void)
{
	struct dist *d = xcalloc(1, sizeof(*d));

	*d = (struct dist){ .name = "alone",
		.ranks = 1,
		.local_ranks = 1,
		.ops = &alone,
		.exchange = { .ranks = 1,
			.ctx = d,
			.ready = ready,
			.poll = poll,
			.wait = wait_for_nobody,
			.sum = sum,
			.broadcast = broadcast,
			.idle = idle,
			.local_ranks = 1 } };
	return d;
}

/* Return a variable's number, or `absent` if it is not set. */
static int number(const char *variable, int absent)
{
	const char *text = getenv(variable);

	return text && *text ? atoi(text) : absent;
}

/* Return the number of ranks by the environment; 0: several, number unknown. */
static int expected_ranks(struct mlr_error *err)
{
	int n = number("OMPI_COMM_WORLD_SIZE", 0), tasks = number("SLURM_STEP_NUM_TASKS", 1);

	if (n > 0)
		return n;
	if (getenv("PMIX_RANK"))
		return getenv("SLURM_STEP_NUM_TASKS") ? tasks : 0;
	if (number("PMI_SIZE", 1) > 1) {
		mlr_fail(err, EPROTO,
			"one of %d processes, started for another MPI than Open MPI (PMI_SIZE is set)",
			number("PMI_SIZE", 1));
		return mlr_hint(err, "start them by Open MPI's mpirun, or by srun --mpi=pmix");
	}
	if (tasks > 1) {
		mlr_fail(err, EPROTO,
			"one of %d tasks of srun, which can't find each other: each would train the "
			"whole by itself",
			tasks);
		return mlr_hint(err,
			"srun --mpi=pmix makes them ranks of one training; srun -n1 "
			"starts one");
	}
	return 1;
}

/* Compare the numbers: an MPI built without this launcher's PMI sees every process as a single
 * rank. */
static int check(struct dist *d, int expected, struct mlr_error *err)
{
	if (!expected || d->ranks == expected)
		return 0;
	mlr_fail(err, EPROTO, "the launcher started %d ranks, but MPI sees %d", expected, d->ranks);
	return mlr_hint(err,
		"take the mpirun of the Open MPI that mltrain-mpi.so loads; for "
		"srun --mpi=pmix it must have been built with PMIx");
}

static void warn(const char *words)
{
	mlr_warning("%s", words);
}

int dist_open(struct dist **ret, struct mlr_error *err)
{
	const struct plugin *p;
	struct dist *d;
	int r, expected = expected_ranks(err);

	if (expected < 0)
		return expected;
	if (expected == 1) {
		*ret = open_alone();
		return 0;
	}
	if (plugin_open("mpi", &p, err) < 0)
		return mlr_wrap(err, "one of several ranks, but no MPI");
	TRY(((const struct dist_plugin *)p)->open(&d, err));
	r = check(d, expected, err);
	if (r < 0) {
		d->ops->close(d);
		return r;
	}
	d->warn = warn;
	*ret = d;
	return 0;
}

void dist_close(struct dist **d)
{
	if (*d)
		(*d)->ops->close(*d);
	*d = NULL;
}

/* A rank's value, and its host. */
struct opinion {
	uint64_t size;
	char digest[HASH_HEX_SIZE];
	char host[64];
};

/* The first rank that differs from rank 0; 0 if none does. */
struct verdict {
	int rank;
	char host[64];
};

static struct verdict compare(const struct opinion *o, int n)
{
	struct verdict v = { 0 };

	for (int i = 1; i < n; i++) {
		if (o[i].size == o[0].size && strcmp(o[i].digest, o[0].digest) == 0)
			continue;
		v.rank = i;
		memcpy(v.host, o[i].host, sizeof(v.host));
		break;
	}
	return v;
}

int dist_agree(struct dist *d, const char *what, const void *bytes, size_t n, struct mlr_error *err)
{
	auto_free struct opinion *all = NULL;
	struct opinion mine = { .size = n };
	struct verdict v = { 0 };

	if (d->ranks == 1)
		return 0;
	hash_short(bytes, n, mine.digest);
	gethostname(mine.host, sizeof(mine.host) - 1);
	if (d->rank == 0)
		all = xcalloc((size_t)d->ranks, sizeof(*all));
	TRY(d->ops->gather(d, &mine, sizeof(mine), all, err));
	if (all)
		v = compare(all, d->ranks);
	TRY(d->exchange.broadcast(d->exchange.ctx, &v, sizeof(v), err));
	if (v.rank)
		return mlr_fail(err, EPROTO, "ranks differ in %s: rank %d on '%s' from rank 0",
			what, v.rank, v.host);
	return 0;
}

void dist_let_rank_0(struct dist *d)
{
	struct timespec end;

	if (!d || d->rank == 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 2;
	/* mpirun sends SIGTERM first, and training catches that. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

void dist_fail(struct dist *d, int status)
{
	if (d && d->ranks > 1)
		d->ops->abort(d, status);
}
