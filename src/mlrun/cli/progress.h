/*
 * Shows on stderr what a pull does: on a terminal one redrawn line for each layer under way;
 * elsewhere one plain line for each layer that ends, because logs are read later; or nothing.
 */
#pragma once

#include "pull/pull.h"

enum progress_style { PROGRESS_NONE, PROGRESS_LINES, PROGRESS_TERMINAL };

struct progress;

struct progress *progress_new(enum progress_style style);
/* Erases the redrawn lines; other lines stay. */
void progress_free(struct progress *p);

/* Callbacks for pull_image(), valid as long as p. */
struct pull_watch progress_watch(struct progress *p);
