/* Reads resource limits as users write them: nofile=1024:4096. */
#ifndef MLR_EXEC_LIMIT_H
#define MLR_EXEC_LIMIT_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Add one --ulimit to the plan: NAME=SOFT[:HARD]; HARD defaults to SOFT. Names are Docker's: core,
 * cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending,
 * stack, and as (address space). Units are setrlimit(2)'s: bytes, seconds, counts. -1 and
 * "unlimited" mean no limit.
 *
 * Returns 0, -EINVAL, or -EPERM if the caller's hard limit is lower and may not be raised.
 */
int limit_plan(const char *text, struct plan *p, struct mlr_error *err);

/* Set plan->cpus, in hundredths of a processor, from --cpus "1.5". */
int limit_cpus(const char *text, struct plan *p, struct mlr_error *err);

/* Parse "4g" into bytes; b, k, m, g and t are powers of 1024, as in docker-run(1). Returns 0,
 * -EINVAL or -ERANGE. */
int limit_bytes(const char *text, uint64_t *ret);

/* Set plan->memory from --memory "4g". Returns like limit_bytes(). */
int limit_memory(const char *text, struct plan *p, struct mlr_error *err);

#endif
