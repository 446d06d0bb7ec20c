/*
 * RUN's commands: prepared, started, and made into a layer when they have ended. For this room's
 * other files.
 */
#pragma once

#include "build/parts.h"
#include "exec/exec.h"

#define RUN_CONTAINER_SIZE 32

/* A command's output, where it does not go to our standard error. */
struct run_output {
	int fd;       /* the end of a pipe to read from; -1: none */
	char *label;  /* before each line; NULL: nothing is printed, unless is_plain */
	int is_plain; /* print bytes as they come */
	char *line;   /* its beginning, n_line bytes */
	size_t n_line;
	int is_cut; /* the line's beginning was printed: it is long */
	char *tail; /* the last n_tail bytes, to show when the command has failed */
	size_t n_tail;
};

struct running {
	struct build *b;
	struct state *s;
	const struct instruction *in;
	struct exec_options exec;
	struct strv argv;
	struct strv keys;   /* what the mounts contribute to the cache's key */
	struct copy *shown; /* n_shown lists of the context's files that they show */
	size_t n_shown;
	struct plan mounts;  /* what the flags mount */
	struct strv to_lock; /* directories of caches that one command at a time may use */
	int *locks;          /* n_locks descriptors that hold the locks */
	size_t n_locks;
	char container[RUN_CONTAINER_SIZE];
	pid_t pid; /* 0: not started */
	int watch; /* pidfd_open(2) of it; -1: not started, or none before Linux 5.3 */
	struct run_output output;
};

/*
 * Prepare an instruction, and look it up in the cache.
 *
 * Returns 0 and a command to start; 1 if it is in the cache, and its layer is added; -errno.
 */
int run_new(struct build *b, struct state *s, const struct instruction *in, struct running **ret,
	struct mlr_error *err);

/* Stops the command, removes its container and frees it. NULL is fine. */
void run_free(struct running *r);

MLR_CLEANUP(run_cleanup, struct running *, run_free);

/*
 * Start the command.
 *
 *   label   before each line that it prints; NULL: without one
 *   others  other commands of this build run
 *
 * Returns 0; 1 if one of them uses a cache that this one wants for itself; -errno.
 */
int run_start(struct running *r, const char *label, int others, struct mlr_error *err);

/* Wait until one of n commands, which run, has ended: ret gets its index and status its status, as
 * a shell has it. Returns 0 or -errno. */
int run_wait(struct running *const *v, size_t n, size_t *ret, int *status, struct mlr_error *err);

/* Add the layer of a command that ended, or with a status other than 0 fail: -ECHILD. */
int run_end(struct running *r, int status, struct mlr_error *err);

/* --- run_mounts.c --- */

/* Add what the site gives to every command: certificates, volumes and variables. They are in
 * neither the layer nor the key. */
void run_add_site(struct running *r);

/* Add the mounts and devices of the instruction's flags. Returns 0; -ENOENT for a missing source or
 * secret; -EINVAL. */
int run_add_flags(struct running *r, struct mlr_error *err);

/* Take the locks of the caches; wait: also if another has one. Returns 0; 1 without wait if so;
 * -errno. */
int run_lock(struct running *r, int wait, struct mlr_error *err);
void run_unlock(struct running *r);
