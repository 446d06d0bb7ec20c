/* Internal to the files of services. */
#ifndef MLR_WORK_SERVICE_PARTS_H
#define MLR_WORK_SERVICE_PARTS_H

#include "store/process.h"
#include "work/service.h"

#include <sys/types.h>

/* A message of the supervisor to its starter, one write(2). */
enum service_word { SERVICE_SAYS_HELD, SERVICE_SAYS_UP, SERVICE_SAYS_FAILED, SERVICE_SAYS_ERROR };

struct service_message {
	enum service_word word;
	int code; /* FAILED: the exit status; ERROR: struct mlr_error's */
	char text[1020];
};

/* The value of SIGRTMIN, which asks the supervisor to stop its command. */
#define SERVICE_ORDER_AGAIN   1 /* and to start it again */
#define SERVICE_ORDER_TIMEOUT 2 /* times seconds, and this much for the service's own */
#define SERVICE_ORDER_OWN     0x1fffffff

/* The directory of this node's services, below the store; to free(). */
char *service_top(struct mlr_error *err);

int service_write_state(struct store *st, const struct service *s, struct mlr_error *err);

/* Read the files alone: the status is the last that was written. Returns 0, -ENOENT, -EPROTO. */
int service_read(struct store *st, const char *name, struct service *ret, struct mlr_error *err);

/* 1: the supervisor runs here; 0: it does not; -1: it cannot be judged from here. */
int service_judge(struct store *st, const struct service *s, struct store_process *ret);

/* Does the process that was recorded in the container still run? */
int service_is_inside(const struct service *s);

/* --- checks (service_health.c) ------------------------------------------------------------- */

struct service_probe {
	pid_t pid;        /* 0: none runs */
	int out;          /* what it prints, or -1 */
	int killed;       /* its time was up */
	int64_t due, end; /* when to start the next, and to kill this; mlr_now_ms() */
	char said[1024];
	size_t n;
};

/* A new run of the command begins. */
void service_probe_reset(struct service_probe *p, struct service *s);

/* Start or end a check if it is time. Returns milliseconds until something is to be done, -1:
 * nothing is. */
int64_t service_probe_run(struct service_probe *p, const struct service *s, const char *program,
	const char *store, int64_t up_ms);

/* Read what it prints. */
void service_probe_read(struct service_probe *p);

/* It has ended. Returns 1 if s has changed. */
int service_probe_ended(struct service_probe *p, struct service *s, int status, int64_t up_ms);

/* End a check that runs. */
void service_probe_kill(struct service_probe *p);

#endif
