/*
 * What a pull shows while it runs, all on stderr: on a terminal lines that are redrawn, one a layer
 * under way; elsewhere a plain line a layer as it ends, because logs are read later; or nothing.
 */
#ifndef MLR_CLI_PROGRESS_H
#define MLR_CLI_PROGRESS_H

#include "pull/pull.h"

enum progress_style { PROGRESS_NONE, PROGRESS_LINES, PROGRESS_TERMINAL };

struct progress;

struct progress *progress_new(enum progress_style style);
/* Takes away what was redrawn; what was said stays. */
void progress_free(struct progress *p);

/* What pull_image() is to call; valid as long as p. */
struct pull_watch progress_watch(struct progress *p);

#endif
