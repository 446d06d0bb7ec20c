/*
 * mpi: adds what the ranks of an MPI program need to a plan.
 */
#pragma once

#include "plan/plan.h"

/*
 * Add what a rank of an MPI program needs: the directories of its PMIx server (PMIX_SERVER_TMPDIR
 * and the like, in slurmd's spool), if they exist and are not mounted yet, and the network's
 * devices.
 *
 * Ranks with a user namespace each cannot read each other's memory, and Open MPI's shared-memory
 * transport hangs on large messages instead of falling back (Open MPI issue 4948 and its
 * btl/vader); in PID namespaces of their own they crash in it. UCX opens /proc/<pid>/fd of the
 * other rank and fails. So a rank without plan->share, or with PLAN_NS_PID, gets variables of
 * origin "mpi" that forbid it. Call this before the environment is planned, so that the user's and
 * the image's variables win.
 *
 *   env  as environ(7)
 */
void mpi_plan(char *const *env, struct plan *p);

/*
 * Let ranks find what PMIx 5 shares: files in a directory that Slurm makes below its TmpFS, which
 * no variable names. It is mounted, or where it is not known, each rank is sent a copy instead.
 * Call this when all else is planned; a PMIX_GDS_MODULE of the user's stays.
 */
void mpi_data_plan(char *const *env, struct plan *p);

/*
 * Set what PyTorch's init_method="env://" and its like read: RANK, WORLD_SIZE, LOCAL_RANK and, if
 * the node with rank 0 is known, MASTER_ADDR and MASTER_PORT. Only for a rank of several
 * (job_world_read()). Call it before the environment is planned, like mpi_plan().
 */
void mpi_world_plan(char *const *env, struct plan *p);

/* Adds the network's and shared memory's devices, which MPI opens, to a plan. */

/*
 * Bind those that this machine has: InfiniBand's and RoCE's /dev/infiniband, Slingshot's /dev/cxi*,
 * Omni-Path's /dev/hfi1*, /dev/xpmem, /dev/knem and the huge pages in /dev/hugepages, if they are
 * mounted. Nothing where there are none, or what the plan has already.
 */
void mpi_fabric_plan(struct plan *p);

/* The directory that this room takes for the machine's "/": $MLRUN_MPI_ROOT, a tree made for a
 * test, or "/". */
const char *mpi_fabric_root(void);
