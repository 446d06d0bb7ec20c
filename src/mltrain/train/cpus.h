/*
 * train: the loop that ties data, model and backend together. Prints nothing: what happens is told
 * to a callback.
 *
 * This header: how many threads this process may use with profit.
 */
#ifndef MLT_TRAIN_CPUS_H
#define MLT_TRAIN_CPUS_H

#include "dist/dist.h"

/*
 * The least of: the CPUs in the affinity mask (sched_getaffinity(2)), the CPU quota of the control
 * groups that this process is in, rounded up (cgroup v2 cpu.max and v1 cpu.cfs_quota_us, every
 * level up to the root), and SLURM_CPUS_PER_TASK when set. At least 1.
 *
 *   root   "" on a real machine; tests give a directory that holds proc/self/cgroup and
 * sys/fs/cgroup
 */
int cpus_available(const char *root);

/*
 * The same for each of several ranks: a CPU that k ranks of a node may run on counts as 1/k of one
 * for each of them. So ranks that the launcher has bound to CPUs of their own take all of those,
 * and ranks that it has not share the node's. All ranks call it.
 *
 * Returns 0, or -EIO when another rank failed.
 */
int cpus_share(struct dist *d, const char *root, int *ret, struct mlr_error *err);

#endif
