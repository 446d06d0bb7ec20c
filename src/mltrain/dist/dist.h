/*
 * dist: training on many ranks. Finds out whether this process is one of several (mpirun, srun),
 * and sums, broadcasts and waits between them; knows no network.
 *
 * The transport over MPI is a plugin, mltrain-mpi.so, loaded only when a launcher's environment
 * says that there is more than one rank: alone, no MPI library need be on the machine.
 */
#ifndef MLT_DIST_DIST_H
#define MLT_DIST_DIST_H

#include "base/error.h"
#include "backend/exchange.h"
#include "tensor/plugin.h"

#include <stdint.h>

struct dist {
	const char *name; /* "alone", "mpi" */
	int rank, ranks;
	int local_rank, local_ranks;
	struct exchange exchange;   /* for engines; ctx is this */
	const struct dist_ops *ops; /* alone has them too */
	/* Tells what is odd and does no harm: a plugin has no log. NULL while opening. */
	void (*warn)(const char *words);
};

/* What a transport provides; the plugin fills it. */
struct dist_ops {
	/* Gather bytes of every rank in rank 0's to [ranks][bytes]; the others' to may be NULL.
	 * Returns 0 or -EIO. */
	int (*gather)(
		struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err);
	int (*barrier)(struct dist *d, struct mlr_error *err);
	void (*close)(struct dist *d);
	/* End every rank's process at once, with this status; does not return, but where one is
	 * alone. */
	void (*abort)(struct dist *d, int status);
};

/* What mltrain-mpi.so shows as mltrain_mpi (tensor/plugin.h). */
struct dist_plugin {
	struct plugin plugin;
	/* Join the other ranks. Returns 0, or -EPROTO when MPI does not start. */
	int (*open)(struct dist **ret, struct mlr_error *err);
};

/*
 * Join the other ranks, or be alone.
 *
 * Several are told by OMPI_COMM_WORLD_SIZE (Open MPI's mpirun), else SLURM_STEP_NUM_TASKS with
 * PMIX_RANK (srun --mpi=pmix), else PMIX_RANK alone. A launcher that started several processes
 * without a PMI (srun --mpi=none with more than one task) or with another one (PMI_SIZE: MPICH's
 * mpirun, srun --mpi=pmi2) is refused with what to do, since each would train the whole by itself
 * and write the same files.
 *
 * Returns 0, -ENOENT when the plugin is not installed, -ELIBACC when it can't be loaded, -EPROTO
 * when MPI does not start or the ranks do not fit together. Errors have a hint.
 */
int dist_open(struct dist **ret, struct mlr_error *err);
void dist_close(struct dist **d);

/*
 * Do all ranks have the same bytes? They differ for instance when one node's CPU makes oneDNN
 * choose other layouts, or ranks were given other options. Every rank gets the same answer.
 *
 *   what   "options", "the layout of gradients": for the error
 *
 * Returns 0, -EPROTO naming the first rank that differs and its host, or -EIO.
 */
int dist_agree(
	struct dist *d, const char *what, const void *bytes, size_t n, struct mlr_error *err);

/*
 * What all ranks find wrong alike is rank 0's to tell: the others wait here for two seconds, in
 * which it ends them. Those that are still there then have failed by themselves, and tell it.
 */
void dist_let_rank_0(struct dist *d);

/*
 * One rank failed and says why on its own stderr; the others must not wait for it. With one rank
 * it does nothing; with more the process does not return.
 */
void dist_fail(struct dist *d, int status);

#endif
