/* Checks the values of settings. */
#pragma once

#include "base/error.h"

#include <stdint.h>

enum config_kind {
	CONFIG_HOST,     /* HOST[:PORT][/PREFIX] */
	CONFIG_TRUTH,    /* true, false and kin; becomes one of those two */
	CONFIG_SECONDS,  /* 1 to 3600 */
	CONFIG_PATH,     /* absolute, variables replaced */
	CONFIG_PATHS,    /* several, separated by ':' */
	CONFIG_VOLUME,   /* SRC[:DST[:FLAGS]], both absolute, variables replaced; with the flag
			  * "optional" and an unset variable it stays unchanged */
	CONFIG_VARIABLE, /* K=V, or K with the caller's value */
	CONFIG_TEXT,
	CONFIG_GPU,   /* auto, all, none, or names of GPUs separated by ',' (docs/gpu.md) */
	CONFIG_MPI,   /* one of CONFIG_MPI_WORDS */
	CONFIG_LEVEL, /* major, full, strict */
	CONFIG_PULL,  /* missing, always, never */
};

#define CONFIG_MPI_WORDS "auto, none, host, host:major, host:full, host:strict"

/* Check a value. Returns it as struct config_value keeps it, to free(); or NULL with err, which
 * does not name the setting. */
char *config_judge(enum config_kind kind, const char *value, struct mlr_error *err);

/* "true", "yes", "y", "on", "1": 1; "false", "no", "n", "off", "0": 0; in any case of letters. Else
 * -1. */
int config_truth(const char *word);

/* Is the word one of "a, b, c" or "a|b|c"? */
int config_is_among(const char *words, const char *word);

/* An amount of memory as Docker writes it: "512m", "4g", "4GiB", "100". Units are powers of 1024.
 * Returns 0; -EINVAL for something else; -ERANGE for more than machines have, or nothing. */
int config_bytes(const char *text, uint64_t *ret);
