/*
 * --container-stage: each node of a step runs its image from a file on its own disk or in its
 * memory. srun makes the file, has sbcast(1) copy it to all nodes at once, and then starts the
 * tasks.
 *
 * The file is DIR/mlrun-stage-UID-JOB.STEP-WORD.sqsh; nobody can make it before, as the word is
 * random (SPANK_STAGE_VARIABLE). Nobody is told when a step has ended on a node, so
 * it stays until the user's next such step there removes those that no process has open.
 */
#pragma once

#include "spank/options.h"

/* In srun, once the step is there: copy the image. Returns 0, or -1 after logging why. */
int stage_send(spank_t sp, const struct spank_site *site, const char *const *settings);

/*
 * In a task: find the copy.
 *
 *   dir   the setting
 *   word  the step's SPANK_STAGE_VARIABLE
 *   ret  its path, to free()
 *
 * Returns 0; -ENOENT and the like; -EPERM for a file that another user has put there or can.
 */
int stage_find(spank_t sp, const char *dir, const char *word, char **ret, struct mlr_error *err);
