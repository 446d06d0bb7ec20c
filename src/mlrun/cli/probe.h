/*
 * The room that mounts finds out what the room that pulls asks.
 */
#ifndef MLR_CLI_PROBE_H
#define MLR_CLI_PROBE_H

#include "pull/format.h"

/* A format_probe_fn. */
int cli_probe(int dir_fd, struct format_probe *ret, struct mlr_error *err);

#endif
