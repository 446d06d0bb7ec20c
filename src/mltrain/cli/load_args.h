/* The command line of mltrain load. */
#ifndef MLT_LOAD_ARGS_H
#define MLT_LOAD_ARGS_H

#include "base/strv.h"
#include "load/load.h"
#include "load/threshold.h"

#include <stdint.h>

struct load_args {
	const char *url, *json, *output, *name, *cacert, *token_file, *images, *method;
	struct stages stages;
	double rate, seconds; /* 0: not given */
	unsigned users, connections, connections_max, known;
	double think_s, timeout_s, cache_rate;
	uint64_t seed;
	int quiet, verify, close;
	struct strv headers;
	struct request_body *bodies; /* [n_bodies], owned */
	size_t n_bodies;
	struct check checks[CHECKS_MAX];
	size_t n_checks;
	struct threshold thresholds[THRESHOLDS_MAX];
	size_t n_thresholds;
};

/* Read it; invalid options end the program. */
void load_args_parse(int argc, char **argv, struct load_args *ret);
void load_args_done(struct load_args *a);

#endif
