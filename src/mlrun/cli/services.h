/* Shared by the commands for services: options that describe one, and choosing some. */
#pragma once

#include "cli/exec_options.h"
#include "work/service.h"
#include "work/service_log.h"

#include <argp.h>

/* Open the store; without one there are no services. Returns as cli_open_store(). */
int services_open(const char *dir, struct store **ret, struct mlr_error *err);

/* Is there a service of that name on this node? */
int services_has(const char *store, const char *name);

/* The name of a service of this node, running or ended, that was started from an image; to free(),
 * or NULL. */
char *services_needing(struct store *st, const char *image);

/* Fill in what the image says: STOPSIGNAL, and HEALTHCHECK unless with_check is 0. An image outside
 * a store has no such defaults.
 *
 *   manifest  gets its digest, to free(), or NULL; may be NULL
 *
 * Returns 0, -EPROTO. */
int services_take_image(const char *image, const char *store, int with_check, struct service *s,
	char **manifest, struct mlr_error *err);

/* Fetch what is missing of the image, and report wrong options of exec, before a supervisor does.
 * Returns 0 or the exit status after a failure, which was printed. */
int services_prepare(struct cli_exec *x, const char *command);

/* Start it. A command that does not start has its own output printed, and is forgotten. Returns 0
 * or the exit status, after printing the error as the command's. */
int services_launch(struct store *st, struct service *s, const char *command);

/* --- output of several ----------------------------------------------------------------------- */

/* The names of a project's services, or of those named. */
struct services_choice {
	struct cli_common common;
	struct strv names;
	const char *project; /* or NULL */
	struct service_list list;
};
void services_choice_done(struct services_choice *c);

/* Read those that are wanted, in the order of starting. Returns 0, or -ENOENT or -EINVAL of the
 * first that cannot be had; the list has the others. */
int services_choose(struct store *st, struct services_choice *c, struct mlr_error *err);

/* How to print the lines of services. */
struct services_output {
	struct service_range range;
	int timestamps, follow, prefix;
	int (*over)(void *ctx); /* called now and then: not 0 ends it; or NULL */
	int (*stop)(void *ctx); /* called until it returns 0, when it has ended; or NULL */
	void *ctx;
};

/* Print what they have printed; with follow until all have ended. Returns 0 or -errno of writing.
 */
int services_print(struct store *st, const struct service_list *l, const struct services_output *o,
	struct mlr_error *err);
