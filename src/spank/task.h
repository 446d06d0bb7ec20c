/* What happens in a task, as the user: it becomes `mlrun exec`. */
#pragma once

#include "spank/options.h"

/*
 * Become the container if one is asked for; otherwise return 0. It never returns after a failure:
 * a task that asked for a container does not run outside of one, whatever Slurm would do with an
 * error (with "optional" in plugstack.conf, go on).
 *
 *   failed  the options could not be read
 */
int spank_task(spank_t sp, const struct spank_site *site, int failed);
