/* Counts the CPUs that this process may use. */
#pragma once

#include "dist/dist.h"

/*
 * Return the least of: the CPUs in the affinity mask (sched_getaffinity(2)), the CPU quota of the
 * control groups that this process is in, rounded up (cgroup v2 cpu.max and v1 cpu.cfs_quota_us,
 * every level up to the root), and SLURM_CPUS_PER_TASK when set. At least 1.
 *
 *   root   "" on a real machine; in tests a directory with proc/self/cgroup and sys/fs/cgroup
 */
int cpus_available(const char *root);

/* Return threads, or with a warning as many as CPUs are available if that is less: threads that
 * wait for each other's turn on a CPU hold a machine for hours. */
int cpus_cut(int threads, int warns);

/*
 * Set *ret to the same for this rank. A CPU on which k ranks of a node may run counts as 1/k for
 * each: ranks that the launcher has bound to CPUs of their own take all of those, others share the
 * node's. All ranks must call it.
 *
 * Returns 0, or -EIO if another rank failed.
 */
int cpus_share(struct dist *d, const char *root, int *ret, struct mlr_error *err);
