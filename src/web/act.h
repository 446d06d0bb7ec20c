/* What the page makes mlrun do: every action is one command line, which the page shows. */
#pragma once

#include "web/index.h"

struct act;

/* A run to start. All borrowed. */
struct act_wish {
	const char *directory; /* one of the roots */
	const char *experiment, *name, *image;
	const struct strv *command;
};

/* Get ready to act; roots is borrowed, as the index. To free(). */
struct act *act_new(struct index *i, const struct strv *roots);

/*
 * The line for a shell that starts it.
 *
 *   field   gets the wish's member that cannot be, on -EINVAL
 *
 * Returns a text to free(), or NULL with err.
 */
char *act_line(
	const struct act *a, const struct act_wish *w, const char **field, struct mlr_error *err);

/* The same of a run that was started; NULL: it was not started here. */
char *act_line_of(const struct run *r);

/*
 * Start it, in a directory of its own. The same key starts once, and gets the same run. Takes long.
 *
 *   key  may be NULL
 *   id   gets the run's
 *
 * Returns 0; -EINVAL with field; -EEXIST; the command's failure.
 */
int act_start(struct act *a, const struct act_wish *w, const char *key, char id[RUN_ID_SIZE],
	const char **field, struct mlr_error *err);

/* End a run by its id. Takes long. Returns 0, -ENOENT, -EROFS. */
int act_stop(struct act *a, const char *id, struct mlr_error *err);

/*
 * Replace note and tags, unless they are not what they were.
 *
 *   was_note, was_tags   as the reader saw them
 *
 * Returns 0, -ENOENT, -EROFS, -EEXIST if somebody has changed them.
 */
int act_note(struct act *a, const char *id, const char *note, const struct strv *tags,
	const char *was_note, const struct strv *was_tags, struct mlr_error *err);

/* The machine: services, GPUs, images, room of the roots. Takes long. */
json_t *act_machine(struct act *a);
