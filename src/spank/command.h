/* Turns the settings into a command line of mlrun. Nothing of Slurm's is needed for it. */
#pragma once

#include "spank/options.h"

/* The task, for command_make(). */
struct command_task {
	unsigned job;       /* its number */
	const char *node;   /* the node, which a named container is of; NULL: not known yet */
	const char *script; /* a batch script's file, which must be in the container; or NULL */
	const char
		*prolog;   /* a program that runs in the container first (--task-prolog); or NULL */
	const char *pin;   /* "IMAGE PIN" of spank/submit.h, or NULL */
	const char *store; /* --store, or NULL */
	const char *staged; /* the image's copy on this node, a squashfs file; or NULL */
	char *const *argv;  /* the command */
	int argc;
};

/* mlrun's name of an image as users of Pyxis write it, to free(); NULL with err if it is wrong. */
char *command_image(const char *text, struct mlr_error *err);

/* The name that the tag meant when the job was submitted, to free(). pin: struct command_task's. */
char *command_pinned(const char *image, const char *pin);

/* Find the command of a task in a configuration of srun --multi-prog. Returns 0 or -EINVAL. */
int command_of_rank(const char *text, unsigned rank, struct strv *ret, struct mlr_error *err);

/*
 * Make the command line: mlrun exec OPTION... -- IMAGE COMMAND...
 *
 *   settings  SPANK_SETTINGS of them, NULL where not set; an image or a name is set
 *
 * Returns 0 or -EINVAL; the error names the option.
 */
int command_make(const char *const *settings, const struct spank_site *site,
	const struct command_task *task, struct strv *ret, struct mlr_error *err);
