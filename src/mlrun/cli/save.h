/* exec --save: writes a container's root to a file when its last command has ended. */
#pragma once

#include "cli/exec_options.h"

/*
 * Go on in a child process. The parent does not return: it waits, saves the container and ends as
 * the child does, or with CLI_FAILED if it cannot be saved. Of several commands in a container, the
 * last one's parent saves it. Without --write the container is one of its own, which goes
 * afterwards.
 *
 * Returns 0 in the child, -EINVAL for options that exclude --save, or why the file cannot be
 * written.
 */
int cli_save_begin(struct cli_exec *x, struct mlr_error *err);

/* In the child, before it ends: no command was started, so that nothing is to be saved. */
void cli_save_give_up(void);
