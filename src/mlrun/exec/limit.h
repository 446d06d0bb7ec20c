/* Resource limits as users write them: nofile=1024:4096. */
#ifndef MLR_EXEC_LIMIT_H
#define MLR_EXEC_LIMIT_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Add one --ulimit to the plan: NAME=SOFT[:HARD], HARD being SOFT unless given. Names are Docker's:
 * core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime,
 * sigpending, stack, and as (address space). Units are setrlimit(2)'s: bytes, seconds, numbers. -1
 * and "unlimited" are no limit.
 *
 * Returns 0, -EINVAL, or -EPERM where the caller's own hard limit is lower and may not be raised.
 */
int limit_plan(const char *text, struct plan *p, struct mlr_error *err);

/* --cpus "1.5": into plan->cpus, hundredths of a processor. */
int limit_cpus(const char *text, struct plan *p, struct mlr_error *err);

/* "4g" in bytes; b, k, m, g and t are powers of 1024, as in docker-run(1). Returns 0, -EINVAL for
 * what is no size, or -ERANGE. */
int limit_bytes(const char *text, uint64_t *ret);

/* --memory "4g": into plan->memory, as above. */
int limit_memory(const char *text, struct plan *p, struct mlr_error *err);

#endif
