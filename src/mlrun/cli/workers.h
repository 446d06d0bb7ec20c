/*
 * What the commands of `mlrun workers` share: the choice of workers, their table, their JSON.
 */
#ifndef MLR_CLI_WORKERS_H
#define MLR_CLI_WORKERS_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"
#include "work/work.h"

/* Open the store and list its workers; without a store there are none, and *st stays NULL. Returns
 * 0 or -errno. */
int workers_open(
	const char *dir, struct store **st, struct worker_list *ret, struct mlr_error *err);

/* Keep those that are named; without a name those that have not ended. A name that is none is
 * -ENOENT or -EEXIST. */
int workers_choose(struct worker_list *l, const struct strv *names, struct mlr_error *err);

/* Print them on stdout. Return the exit status. */
int workers_print(const struct store *st, const struct worker_list *l, int json);

#endif
