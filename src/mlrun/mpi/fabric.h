/* Adds the network's and shared memory's devices, which MPI opens, to a plan. */
#ifndef MLR_MPI_FABRIC_H
#define MLR_MPI_FABRIC_H

#include "plan/plan.h"

/*
 * Bind those that this machine has: InfiniBand's and RoCE's /dev/infiniband, Slingshot's /dev/cxi*,
 * Omni-Path's /dev/hfi1*, /dev/xpmem, /dev/knem and the huge pages in /dev/hugepages, if they are
 * mounted. Nothing where there are none, or what the plan has already.
 */
void mpi_fabric_plan(struct plan *p);

/* The directory that this room takes for the machine's "/": $MLRUN_MPI_ROOT, a tree made for a
 * test, or "/". */
const char *mpi_fabric_root(void);

#endif
