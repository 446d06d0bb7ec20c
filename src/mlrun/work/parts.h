/* What the files of this room share: workers on this machine (local.c). */
#ifndef MLR_WORK_PARTS_H
#define MLR_WORK_PARTS_H

#include "work/work.h"

/*
 * Choose processors and GPUs that the machine's other workers leave, and start the supervisor.
 *
 *   program  mlrun's path
 *
 * Returns as work_start().
 */
int local_start(struct store *st, const char *program, struct worker *w, struct mlr_error *err);

/* In the supervisor: keep to the processors chosen, and add options for what exec limits. */
void local_limit(const struct worker *w, struct strv *options);

/* Set its status. */
void local_look(struct store *st, struct worker *w);

/* Tell the supervisor to end. Returns 0; -EPERM for one on another machine. */
int local_cancel(struct store *st, const struct worker *w, struct mlr_error *err);

/* Keep the calling process, and what it becomes, to the worker's processors and in its control
 * group. */
void local_enter(const struct worker *w);

#endif
