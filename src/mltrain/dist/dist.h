/*
 * dist: training on many ranks. Finds out whether this process is one of several (mpirun, srun),
 * and sums, broadcasts and waits between them; knows no network.
 *
 * The transport over MPI is a plugin, mltrain-mpi.so, loaded only when a launcher's environment
 * says that there is more than one rank. A single rank needs no MPI library on the machine.
 */
#pragma once

#include "backend/exchange.h"
#include "tensor/plugin.h"

struct dist {
	const char *name; /* "alone", "mpi", "elastic" */
	int rank, ranks;
	int local_rank, local_ranks;
	int elastic;                /* elastic.h: rank and ranks change */
	struct exchange exchange;   /* for engines; ctx is this struct */
	const struct dist_ops *ops; /* never NULL */
	/* Reports what is odd but harmless, since a plugin has no log. NULL while opening. */
	void (*warn)(const char *words);
};

/* A transport's functions. */
struct dist_ops {
	/* Gather bytes of every rank in rank 0's to [ranks][bytes]; the others' to may be NULL.
	 * Returns 0 or -EIO. */
	int (*gather)(
		struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err);
	void (*close)(struct dist *d);
	/* End every rank's process at once with this status. Returns only with a single rank. */
	void (*abort)(struct dist *d, int status);
};

/* The table that mltrain-mpi.so exports as mltrain_mpi (tensor/plugin.h). */
struct dist_plugin {
	struct plugin plugin;
	/* Join the other ranks. Returns 0, or -EPROTO if MPI does not start. */
	int (*open)(struct dist **ret, struct mlr_error *err);
};

/*
 * Join the other ranks, if there are any.
 *
 * The number of ranks comes from OMPI_COMM_WORLD_SIZE (Open MPI's mpirun), else from
 * SLURM_STEP_NUM_TASKS with PMIX_RANK (srun --mpi=pmix); PMIX_RANK alone means several. Several
 * processes without a PMI (srun --mpi=none with more than one task) or with another one (PMI_SIZE:
 * MPICH's mpirun, srun --mpi=pmi2) are refused with a hint: each would train on everything by
 * itself and write the same files.
 *
 * Returns 0, -ENOENT if the plugin is not installed, -ELIBACC if it can't be loaded, -EPROTO if MPI
 * does not start or the ranks do not fit together. Errors have a hint.
 */
int dist_open(struct dist **ret, struct mlr_error *err);
void dist_close(struct dist **d);

/*
 * Do all ranks have the same bytes? They may differ because one node's CPU makes oneDNN choose
 * other layouts, or because ranks got different options. Every rank gets the same answer.
 *
 *   what   "options", "the layout of gradients": for the error
 *
 * Returns 0, -EPROTO naming the first rank that differs and its host, or -EIO.
 */
int dist_agree(
	struct dist *d, const char *what, const void *bytes, size_t n, struct mlr_error *err);

/*
 * Rank 0 reports an error that all ranks find. The other ranks wait here for two seconds, in which
 * rank 0 ends them. A rank that is still running then failed alone, and reports its error.
 */
void dist_let_rank_0(struct dist *d);

/*
 * End all ranks after this one failed and reported why on its stderr, so that none waits for it.
 * With one rank it does nothing; with more it does not return.
 */
void dist_fail(struct dist *d, int status);
