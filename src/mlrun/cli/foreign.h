/*
 * Knows commands and options of docker(1), podman(1), apptainer(1) and enroot(1) that mlrun lacks,
 * and what to type instead.
 */
#pragma once

#include "base/options.h"

/* Find what to type instead of a command, perhaps of two words ("system prune"; next may be NULL);
 * NULL for an unknown one. */
const char *foreign_command(const char *word, const char *next);

/* options_syntax.foreign of all commands. Refuses an option that would change something, with a
 * message and CLI_FAILED. */
enum options_foreign foreign_option(
	const char *command, const char *option, const char *value, const char *next);
