/*
 * mpi: looks at the host's MPI, PMI and fabric and adds to a plan.
 *
 * This file: the job step that the process is a rank of, as its environment tells.
 */
#ifndef MLR_MPI_STEP_H
#define MLR_MPI_STEP_H

#include "plan/plan.h"

/*
 * The word that all ranks of this step on this node say and no others do, to free(); NULL: this is no
 * rank of a parallel step. From Slurm (SLURM_JOB_ID, SLURM_STEP_ID, with SLURM_STEP_NUM_TASKS above 1 or
 * a PMI), Open MPI's mpirun (PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid), Hydra (PMI_FD, PMI_SIZE).
 *
 *   env  as environ(7)
 */
char *mpi_step(char *const *env);

/* Is this process a rank of an MPI program: does it have PMIX_RANK, PMI_RANK or OMPI_COMM_WORLD_RANK? */
int mpi_is_rank(char *const *env);

/*
 * Ranks that have a user namespace each cannot read each other's memory, and Open MPI's shared-memory
 * transport hangs on large messages instead of falling back (reference: Open MPI issue 4948 and its
 * btl/vader). Without plan->share, a rank is told not to use it, by variables of origin "mpi".
 */
void mpi_plan(char *const *env, struct plan *p);

#endif
