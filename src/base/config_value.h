/* What may stand behind the '=' of a setting. */
#ifndef MLR_BASE_CONFIG_VALUE_H
#define MLR_BASE_CONFIG_VALUE_H

#include "base/error.h"

enum config_kind {
	CONFIG_HOST,     /* HOST[:PORT][/PREFIX] */
	CONFIG_TRUTH,    /* true, false and kin; becomes one of those two */
	CONFIG_SECONDS,  /* 1 to 3600 */
	CONFIG_PATH,     /* absolute, variables replaced */
	CONFIG_PATHS,    /* several, with a ':' between them */
	CONFIG_VOLUME,   /* SRC[:DST[:FLAGS]], both absolute, variables replaced; with the flag
			    "optional" one that has a variable which is not set stays as it is */
	CONFIG_VARIABLE, /* K=V, or K: the caller's */
	CONFIG_TEXT,
	CONFIG_GPU,  /* auto, all, none, or names of GPUs with a ',' between them (docs/gpu.md) */
	CONFIG_MPI,  /* auto, none */
	CONFIG_PULL, /* missing, always, never */
};

/* The value as struct config_value keeps it, to free(); or NULL with err, which names no
 * setting. */
char *config_judge(enum config_kind kind, const char *value, struct mlr_error *err);

/* "true", "yes", "on", "1": 1; "false", "no", "off", "0": 0; in any case of letters. Else -1. */
int config_truth(const char *word);

#endif
