/*
 * The supervisor of a service or a worker, a process of mlrun's: starts `mlrun exec` in a child,
 * sees when its container is there, passes orders on, kills what is left and writes what happened.
 * What differs between services (service_hold.c) and workers (worker_hold.c) is a table.
 *
 * On a machine without Slurm its starter begins it in a session of its own (supervisor_launch()),
 * with the lock that lets nobody else start one of the same name.
 */
#pragma once

#include "store/process.h"

#include <sys/signalfd.h>

/* --- children ------------------------------------------------------------------------------ */

#define CHILD_FDS 5

struct child {
	const char *program; /* a path, or a name on PATH */
	const struct strv *argv;
	int fds[CHILD_FDS], n; /* its descriptors from 0 on, and it has no others; -1: /dev/null */
	int session;           /* it leads a session, not only a process group */
	int mortal;            /* SIGKILL ends it with this process */
};

/* Start a program with no signal blocked or ignored. Returns 0 or -errno, also execve(2)'s. */
int work_child_start(const struct child *c, pid_t *ret);

/* --- the processes in a child's container ---------------------------------------------------- */

struct inside {
	uint64_t id; /* the container's (runtime/container.h); 0: not known */
	int root;    /* its root directory: while it is open, the kernel gives the id to no other
		      * container, which work_inside_kill() would kill; -1 */
};

#define INSIDE_INIT   \
	{             \
		0, -1 \
	}

/*
 * Find the process itself, or the first below it that is in a container: options such as --init
 * leave a process of mlrun's outside, which does not count. A set-up that is not finished may not
 * be looked at.
 *
 *   proc  a descriptor of /proc
 *   ret   gets the container
 *
 * Returns 0 if there is none yet.
 */
pid_t work_inside_find(int proc, pid_t pid, struct inside *ret);

/* Kill what is in the container, also what is no child of this process, and wait for it for at most
 * a second; then forget it. id 0: nothing. */
void work_inside_kill(int proc, struct inside *in);

/* --- the supervisor -------------------------------------------------------------------------- */

struct supervisor_kind {
	/* The child is in its container, by this process. */
	void (*up)(void *of, pid_t pid);
	/* It has ended, and all of its container with it: begins the next, or sets `over`. */
	void (*ended)(void *of, int exit_status);
	/* Do what is due. Returns the milliseconds until there is more; -1: an event. */
	int64_t (*due)(void *of);
	/* A signal has come: SIGTERM, SIGINT, SIGHUP or SIGRTMIN. */
	void (*order)(void *of, const struct signalfd_siginfo *info);
	/* Another child has ended. */
	void (*reaped)(void *of, pid_t pid, int exit_status);
	/* Write what happened into the store. Returns 0 or -errno. */
	int (*write)(void *of);
};

struct supervisor {
	const struct supervisor_kind *kind;
	void *of;          /* the kind's argument */
	const int *fds[5]; /* descriptors that due() reads, or of -1; NULL: no more */
	pid_t child;       /* mlrun exec, which becomes the command; 0: none runs */
	int status;        /* of the last child, as waitpid(2) gives it */
	int64_t begun, up; /* when it was started, and seen in its container; mlr_now_ms() */
	pid_t pid;         /* a process in the container; 0: not seen yet */
	struct inside inside;
	int64_t kill_at;   /* when to send SIGKILL; 0: nobody asked it to end */
	int64_t term_ms;   /* its group gets SIGTERM then, and SIGKILL so much later; 0: it does not
			    */
	int64_t write_at;  /* when to write again what could not be written; 0: not */
	int over;          /* the supervisor ends */
	int signals, proc; /* /proc */
	int starter, lock; /* who waits for the start; -1 */
	char *process;     /* this process: store_process_name()'s */
};

#define SUPERVISOR_INIT                                                                      \
	{                                                                                    \
		.inside = INSIDE_INIT, .signals = -1, .proc = -1, .starter = -1, .lock = -1, \
	}
void supervisor_done(struct supervisor *s);

/* Become a supervisor: block the signals, adopt orphans. launched: by supervisor_launch(). */
int supervisor_begin(struct supervisor *s, int launched, struct mlr_error *err);

/* Start the child. Returns 0 or -errno with an error. */
int supervisor_start(struct supervisor *s, const struct child *c, struct mlr_error *err);

/* Send the child a signal, or a shorter time to one that has got it already.
 *
 *   pid  the child, or its group: negative
 *   ms   to SIGKILL
 */
void supervisor_end(struct supervisor *s, pid_t pid, int sig, int64_t ms);

/* Write what happened. A full disk is no reason to end the command: what cannot be written is
 * written again later, and waited for if the supervisor is over; its directory may be gone. */
void supervisor_write(struct supervisor *s);

/* Supervise until `over`. */
void supervisor_run(struct supervisor *s);

/* Make *ms the smaller; -1: never. */
void supervisor_sooner(int64_t *ms, int64_t other);

/* Does the supervisor of that name run (store_process_name(), or NULL)? Returns 1, 0, or -1
 * if it cannot be judged from here. */
int supervisor_judge(struct store *st, const char *process, struct store_process *ret);

/* Messages of a supervisor to its starter. */
enum supervisor_word {
	SUPERVISOR_HOLDS,  /* its name is written: others see it */
	SUPERVISOR_UP,     /* its command runs, or has ended already */
	SUPERVISOR_FAILED, /* the command did not start; code: its exit status */
	SUPERVISOR_ERROR,  /* code and text: struct mlr_error's */
};
void supervisor_tell(struct supervisor *s, enum supervisor_word word, int code, const char *text);

/*
 * Lock a file of the store's: nobody else starts such a supervisor until it is closed.
 *
 *   is_waiting   set if another process has it, instead of waiting; NULL: wait
 *
 * Returns it, or -errno.
 */
int supervisor_lock(
	struct store *st, const char *path, int flags, int *is_waiting, struct mlr_error *err);

/*
 * Start mlrun as a supervisor, and wait for its word.
 *
 *   command      mlrun's, words and a NULL; gets --store and the name
 *   out          where it prints; -1: nowhere
 *   locked       a lock of the starter's, which the supervisor shares until it holds; closed then
 *   until        SUPERVISOR_HOLDS, SUPERVISOR_UP
 *   exit_status  gets that of a command that did not start; may be NULL
 *
 * Returns 0; -ECHILD for a command that did not start; what the supervisor says.
 */
int supervisor_launch(struct store *st, const char *const *command, const char *name, int out,
	int *locked, enum supervisor_word until, int *exit_status, struct mlr_error *err);
