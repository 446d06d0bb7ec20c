/* Runs mlrun, whose command lines are all that this server does. */
#pragma once

#include "base/base.h"

#include <jansson.h>

/* The path of mlrun. */
const char *command_mlrun(void);

/*
 * Run a command and read what it prints.
 *
 *   ms    it is killed if it has not ended by then
 *   ret   to free()
 *
 * Returns 0; -ETIMEDOUT; -EINVAL with its own words if it fails.
 */
int command_run(char *const *argv, int ms, char **ret, struct mlr_error *err);

/* The JSON that mlrun prints for up to three words, of which the last may be NULL; NULL: there is
 * none. */
json_t *command_json(const char *command, const char *word, const char *third);
