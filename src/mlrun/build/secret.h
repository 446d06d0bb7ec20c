/* The secrets that the caller gives to a build. For this room's other files. */
#pragma once

#include "base/base.h"

/*
 * Read a secret.
 *
 *   secrets  "id=ID[,src=FILE|,env=NAME]" of --secret; or NULL
 *   ret      its bytes, and a NUL behind them, to free(); unchanged if there is no such secret
 *
 * Returns 0; the errno of reading the file; -ENOENT if the variable is not set.
 */
int secret_read(
	const struct strv *secrets, const char *id, char **ret, size_t *len, struct mlr_error *err);
