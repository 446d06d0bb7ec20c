/*
 * A service: a command in a container that runs in the background, found by its name on this node.
 * Each has a small supervisor (service_hold.c), a process in a session of its own; nothing central
 * runs. Its files, below services/<node>/<name>/ in the store; only the owner may enter:
 *
 *   service.json  what was asked for; the starter's
 *   state.json    what happened; the supervisor's, replaced atomically
 *   spare         room for the last state; the supervisor's
 *   env           variables whose values no command line shall show, each "K=V" and a NUL
 *   environ       all variables of the command, for who joins it; mlrun exec's
 *   hosts         the machine's /etc/hosts, and the names of a project's services
 *   log, log.1    what the command printed (service_log.h)
 *
 * The starter of one has a lock on services/<node>. A supervisor that was killed, or did not
 * survive a restart of the machine, is known by its name in state.json (store/process.h).
 */
#pragma once

#include "base/json.h"
#include "store/store.h"

enum service_status {
	SERVICE_STARTING,   /* its command does not run yet */
	SERVICE_RUNNING,    /* it does */
	SERVICE_RESTARTING, /* it has ended, and is started again after a pause */
	SERVICE_EXITED,     /* it has ended */
	SERVICE_LOST,       /* the supervisor was killed, and with it perhaps the command */
};
extern const char *const service_status_names[SERVICE_LOST + 1];

enum service_health {
	SERVICE_UNCHECKED, /* nothing checks it */
	SERVICE_NOT_YET,   /* no check has succeeded or failed often enough */
	SERVICE_HEALTHY,
	SERVICE_UNHEALTHY,
};
/* "starting" and so on; NULL for SERVICE_UNCHECKED. */
extern const char *const service_health_names[SERVICE_UNHEALTHY + 1];

enum service_restart { SERVICE_NO_RESTART, SERVICE_ON_FAILURE, SERVICE_ALWAYS };
extern const char *const service_restart_names[SERVICE_ALWAYS + 1];

/* How to find out whether it is well. Times in milliseconds. */
struct service_check {
	struct strv test; /* a command in the container, 0: well; empty: none */
	int64_t interval, timeout, start_period, start_interval;
	long retries; /* so many failures in a row: unhealthy */
};

/* Docker's defaults. */
#define SERVICE_CHECK_INIT                          \
	{                                           \
		STRV_INIT, 30000, 30000, 0, 5000, 3 \
	}

struct service {
	/* What was asked for. */
	char *name, *image;
	char *directory;              /* working directory of the supervisor */
	struct strv options, command; /* of mlrun exec */
	struct strv ports;            /* as forward_open() takes them */
	struct strv env, hosts;       /* "K=V"; names that mean this machine. Not in service.json */
	struct service_check check;
	enum service_restart restart;
	long restarts_max;    /* of SERVICE_ON_FAILURE; 0: any number */
	int stop_signal;      /* asks the command to end */
	int exposes;          /* its image declares ports; not recorded */
	int64_t stop_ms;      /* from then to SIGKILL */
	uint64_t log_size;    /* bytes of both log files */
	char *log_file;       /* gets its output as it is, too; NULL: no file does */
	int remove;           /* forget it when it has ended */
	char *project, *part; /* the compose project and the service in it; NULL: none */
	char *digest;         /* of all that its project wants of it; NULL */
	long replica, order;  /* from 1; its place in the order of starting */
	int64_t created;      /* milliseconds since the epoch, as all times */

	/* What happened. */
	char *process;   /* the supervisor: store_process_name()'s */
	pid_t pid;       /* a process in the container; 0: there is none */
	uint64_t start;  /* its start time (base/proc.h) */
	uint64_t inside; /* the container (runtime/container.h) */
	enum service_status status;
	enum service_health health;
	long failures; /* of its check, in a row */
	char *said;    /* what the last failed check printed; NULL: none failed */
	long restarts; /* by the policy */
	long runs;     /* how often its command was started by its supervisor */
	int64_t started, ended;
	int exit_status; /* of the last end; -1: none */
};

#define SERVICE_INIT                                                              \
	{                                                                         \
		.check = SERVICE_CHECK_INIT, .stop_signal = 15, .stop_ms = 10000, \
		.log_size = 10000000, .exit_status = -1                           \
	}
void service_done(struct service *s);

/* Replace parts of a check by those of another that are not 0 or empty. */
void service_check_take(struct service_check *c, const struct service_check *said);

struct service_list {
	struct service *v; /* by name */
	size_t n;
};

void service_list_done(struct service_list *l);

/* Check a name: [a-zA-Z0-9][a-zA-Z0-9_.-]*, not only digits, which are a process id. Returns 0 or
 * -EINVAL. */
int service_name_check(const char *name, struct mlr_error *err);

/* Has it ended, whatever way? */
int service_has_ended(const struct service *s);

/* Read one, with its status. Returns 0; -ENOENT with a hint; -EPROTO. */
int service_get(struct store *st, const char *name, struct service *ret, struct mlr_error *err);

/* Read all of this node. A damaged one is left out with a warning. */
int service_list_read(struct store *st, struct service_list *ret, struct mlr_error *err);

/* All that is known of it but its variables, whose values may be secret. */
json_t *service_json(const struct service *s);

/* A digest of all that is asked for but hosts, and of the image's manifest, which may be NULL; to
 * free(). */
char *service_digest(const struct service *s, const char *manifest);

/* Write what is asked for: of a new service, or what may change while it runs. An empty env or
 * hosts leaves that file as it is. */
int service_write_wish(struct store *st, const struct service *s, struct mlr_error *err);

/* The text of its /etc/hosts: the machine's, and its hosts; to free(). */
char *service_hosts_text(const struct service *s);

/* Write its hosts again, also while it runs. */
int service_write_hosts(struct store *st, const struct service *s, struct mlr_error *err);

/* The absolute path of one of its files, to free(). */
char *service_path(const struct store *st, const char *name, const char *file);

/* --- what commands do (service_act.c) ------------------------------------------------------- */

/*
 * Start a service, in place of one of that name that has ended, and return when its command runs.
 *
 *   s  what is wanted; gets the rest
 *
 * Returns 0; -EEXIST with a hint for a name in use; -ECHILD if the command did not start: its
 * exit_status, 125 to 127, and its log have the rest. The files are there then: service_forget().
 */
int service_start(struct store *st, struct service *s, struct mlr_error *err);

/*
 * Stop it, and wait until all of its container has ended. What a killed supervisor left is ended,
 * too. One that has ended stays as it is.
 *
 *   timeout_ms  to SIGKILL; -1: the service's own
 *
 * Returns 0; -EPERM for one in another PID namespace.
 */
int service_stop(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err);

/* SIGKILL ends it at once, as service_stop() does; send any other signal to its command. Returns 0;
 * -ESRCH if it does not run. */
int service_kill(struct store *st, struct service *s, int sig, struct mlr_error *err);

/* Stop it if it runs, and start it again: by its own supervisor, or a new one that has the
 * caller's variables. Returns as service_stop() and service_start(). */
int service_restart(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err);

/* Wait until it has ended, and read it again. ms -1: no limit. Returns 0, -ETIMEDOUT, -EPERM. */
int service_await(struct store *st, struct service *s, int64_t ms, struct mlr_error *err);

/* Remove the files of one that has ended. What another process has started under its name since
 * then stays. */
int service_forget(struct store *st, const struct service *s, struct mlr_error *err);

/* End and forget one, also one whose record is damaged.
 *
 *   force  also one that runs
 *
 * Returns 0; -ENOENT; -EBUSY with a hint. */
int service_remove(struct store *st, const char *name, int force, struct mlr_error *err);

/* --- for this room --------------------------------------------------------------------------- */

/* The value of SIGRTMIN, which asks the supervisor to stop its command. */
#define SERVICE_ORDER_AGAIN   1 /* and to start it again */
#define SERVICE_ORDER_TIMEOUT 2 /* times seconds, and this much for the service's own */
#define SERVICE_ORDER_OWN     0x1fffffff

/* Paths below the store, to free(): the directory of this node's services; a service's file, or
 * its directory (""). */
char *service_top(void);
char *service_below(const char *name, const char *file);

/* Reserve room for the state of its end: a full disk shall not lose the exit status. */
int service_reserve(struct store *st, const struct service *s, struct mlr_error *err);

int service_write_state(struct store *st, const struct service *s, struct mlr_error *err);

/* Read the files, without a look at processes: the status is the last that was written. Returns 0,
 * -ENOENT, -EPROTO. */
int service_read(struct store *st, const char *name, struct service *ret, struct mlr_error *err);

/* Does the process that was recorded in the container still run? */
int service_is_inside(const struct service *s);

/* Be its supervisor. (service_hold.c) */
int service_hold(struct store *st, const char *name, struct mlr_error *err);
