/*
 * mpi: looks at the host's MPI, PMI and fabric and adds to a plan.
 *
 * This file: the job step that the process is a rank of, as its environment tells.
 */
#ifndef MLR_MPI_STEP_H
#define MLR_MPI_STEP_H

#include "plan/plan.h"

/*
 * The word that all ranks of this step on this node say and no others do, to free(); NULL: this is
 * no rank of a parallel step. From PMIx (PMIX_NAMESPACE: srun --mpi=pmix, Open MPI's mpirun), Open
 * MPI's mpirun (OMPI_MCA_ess_base_jobid), Slurm (SLURM_JOB_ID, SLURM_STEP_ID, with
 * SLURM_STEP_NUM_TASKS above 1 or a PMI), Hydra (PMI_FD, PMI_SIZE above 1), in this order.
 *
 *   env  as environ(7)
 */
char *mpi_step(char *const *env);

/* Is this process a rank of an MPI program: does it have PMIX_RANK, PMI_RANK or
 * OMPI_COMM_WORLD_RANK? */
int mpi_is_rank(char *const *env);

/*
 * What a rank needs: the directories of its PMIx server, where they exist and are not mounted yet
 * (PMIX_SERVER_TMPDIR and its kin, which lie in the spool of slurmd's).
 *
 * Ranks that have a user namespace each cannot read each other's memory, and Open MPI's
 * shared-memory transport hangs on large messages instead of falling back (reference: Open MPI
 * issue 4948 and its btl/vader); in PID namespaces of their own they crash in it. So without
 * plan->share, or with PLAN_NS_PID, a rank is told not to use it, by variables of origin "mpi". To
 * be called before the environment is planned, so that those of the user and the image win.
 */
void mpi_plan(char *const *env, struct plan *p);

#endif
