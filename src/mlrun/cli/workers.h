/*
 * What the commands of `mlrun workers` share: the choice of workers, their table, their JSON; and
 * with `mlrun elastic run` what a worker is to be.
 */
#pragma once

#include "cli/exec_options.h"
#include "store/store.h"
#include "work/work.h"

#include <argp.h>

/* Open the store and list its workers; without a store there are none, and *st stays NULL. Returns
 * 0 or -errno. */
int workers_open(
	const char *dir, struct store **st, struct worker_list *ret, struct mlr_error *err);

/* Keep the named workers, or all active ones. -ENOENT: unknown name; -EEXIST: ambiguous. */
int workers_choose(struct worker_list *l, const struct strv *names, struct mlr_error *err);

/* Check the operands of a command that takes ids, or --all. */
void workers_check_all(struct argp_state *state, int all, const struct strv *names);

/* Print them on stdout. Return the exit status. */
int workers_print(const struct store *st, const struct worker_list *l, int json);

/*
 * Print what commands have printed, of several workers each part under a line that names it.
 * (workers_logs.c)
 *
 *   id      a worker's; is_run: an elastic run's, all of whose workers are meant
 *   follow  go on until they have ended
 *
 * Returns the exit status.
 */
int workers_logs(const char *dir, const char *id, int is_run, int follow);

/* --- what a worker is to be (workers_wish.c) ------------------------------------------------- */

/* A command's struct begins with it. */
struct workers_wish {
	struct cli_exec x;
	struct strv words, sbatch; /* exec's options in their long form; sbatch's */
	long gpus;
	int64_t deadline; /* seconds from now; 0: none */
	const char *partition, *name;
};

/* For the row of --deadline. */
int workers_read_deadline(const char *text, void *field);
#define WORKERS_A_DEADLINE "a time such as 90s, 30m, 12h or 2d"

/* For cli_exec_parse_with(): keep exec's options. --cpus and --memory are the whole worker's. */
void workers_keep_word(void *args, const char *name, const char *arg);

/* Before fetching an image, reject options that workers do not support and invalid limits. Returns
 * 0 or -EINVAL. */
int workers_refuse_options(const struct workers_wish *a, struct mlr_error *err);

/* Bring a missing image now: nodes may have no way out, and one fetch serves all workers. here: the
 * workers will be on this machine, and so must a directory or file that is used in place. Returns
 * 0, or the exit status after a failure, which was printed as the command's. */
int workers_bring_image(const struct workers_wish *a, int here, const char *command);

/* Fill a worker that is to be started. Returns 0 or -EINVAL. */
int workers_fill(const struct workers_wish *a, struct worker *w, struct mlr_error *err);
