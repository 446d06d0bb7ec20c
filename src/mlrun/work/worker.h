/*
 * A worker as its files in the store show it. Each file has one writer:
 *
 *   workers/<key>/worker.json  what was asked for, the starter's; the batch system's last word on a
 *                              worker that could not say how it ended, of who asked it
 *   workers/<key>/run          what happened, a JSON object a line; the supervisor's
 *                              (worker_hold.c)
 *   workers/<key>/env          variables of -e, for mlrun exec; the supervisor's
 *   workers/<key>/log          what its command printed
 *
 * `run` exists, empty, before the supervisor starts: the one who waits for it opens the same file
 * again and again, which shows new lines on NFS, too (nfs(5), close-to-open).
 *
 *   {"event": "hold", "process": store_process_name()'s, "node": its name}
 *   {"event": "up", "pid": a process in the container, "address": of the node, "time": seconds}
 *   {"event": "end", "status": exit status, "why": "exit", "signal" or "deadline", "time": seconds}
 */
#pragma once

#include "base/record.h"
#include "store/store.h"

enum worker_status {
	WORKER_PENDING,  /* waits for resources */
	WORKER_STARTING, /* its container is not there yet */
	WORKER_RUNNING,
	WORKER_SUSPENDED, /* the batch system has stopped it, and lets it go on later */
	WORKER_SUCCEEDED, /* its command ended with 0 */
	WORKER_FAILED,    /* it ended otherwise, or its node did */
	WORKER_STOPPED,   /* by `stop`, scancel(1) or a signal */
	WORKER_TIMEDOUT,  /* by the deadline, or a limit of the batch system */
	WORKER_LOST,      /* it does not run, and nobody knows how it ended */
};

/* "pending" and so on, indexed by enum worker_status. */
extern const char *const worker_status_names[WORKER_LOST + 1];

struct worker {
	/* What was asked for. */
	char *key;                    /* of its files: 16 hexadecimal digits */
	char *id;                     /* "4711", Slurm's; "local-abcdef" */
	char *name;                   /* for people; any text */
	char *system;                 /* "slurm", "local" */
	char *image, *partition;      /* partition NULL: the system's default */
	char *directory;              /* working directory */
	struct strv options, command; /* of mlrun exec; command empty: it waits to be used */
	char *run; /* the elastic run that it is of, as elastic_word() has it; NULL: none */
	long cpus, gpus;
	/* For a run whose command cannot change: */
	long warning;      /* signal before the end, to save its state; 0: none */
	long grace;        /* seconds from then to SIGKILL */
	long nodes;        /* nodes of its job, each with the command once */
	uint64_t memory;   /* bytes; 0: not said */
	int64_t created;   /* seconds since the epoch, as all times */
	int64_t deadline;  /* 0: none */
	struct strv lists; /* local: the processors and the GPUs that it got, "0,1" and "2" or "" */

	/* What happened. */
	char *process; /* the supervisor: store_process_name()'s */
	char *node, *address;
	pid_t pid;            /* in the container; 0: it is not there yet */
	int64_t ready, ended; /* 0: not yet */
	int exit_status;      /* -1: unknown */
	char *why;            /* of the end: "exit", "signal", "deadline"; NULL */
	char *state, *reason; /* the batch system's words; NULL: it has none */
	char *last;           /* final state of a worker that did not write its end; NULL */
	enum worker_status status;
};

#define WORKER_INIT               \
	{                         \
		.exit_status = -1 \
	}
void worker_done(struct worker *w);

struct worker_list {
	struct worker *v; /* oldest first */
	size_t n;
};

void worker_list_done(struct worker_list *l);

/* Has it ended, whatever way? */
int worker_has_ended(const struct worker *w);

/* The name by which mpirun(1) and mlrun-rsh(1) know it: "worker-4711", "local-abcdef"; to free().
 */
char *worker_host(const struct worker *w);

/* How many ranks it is made for: its GPUs, else its processors. */
long worker_slots(const struct worker *w);

/* Its status for people, with what is known of the reason: "failed (3)"; to free(). */
char *worker_describe(const struct worker *w);

/* The absolute path of one of its files, to free(): "log". */
char *worker_path(const struct store *st, const struct worker *w, const char *file);

/* Replace a text by a copy of another one, or by NULL. */
void worker_set(char **text, const char *to);

/* --- for this room ------------------------------------------------------------------------ */

/* Give it a key and its directory with an empty `run`. Returns 0, -EROFS and the like. */
int worker_make(struct store *st, struct worker *w, struct mlr_error *err);

/* The wish of a worker, as worker.json has it. */
extern const struct record_row worker_rows[];

/* Write worker.json, again too. */
int worker_write(struct store *st, const struct worker *w, struct mlr_error *err);

/* Read all files of one. Returns 0, -ENOENT, -EPROTO. */
int worker_read(struct store *st, const char *key, struct worker *ret, struct mlr_error *err);

/* Read all workers. A damaged one is left out with a warning. */
int worker_read_all(struct store *st, struct worker_list *ret, struct mlr_error *err);

/* Add an event to `run`. */
enum worker_event { WORKER_HOLD, WORKER_UP, WORKER_END };
int worker_tell(
	struct store *st, const struct worker *w, enum worker_event event, struct mlr_error *err);

/* Remove its files. */
int worker_remove(struct store *st, const struct worker *w, struct mlr_error *err);
