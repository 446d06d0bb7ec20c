/*
 * The output of a service, in the format of Kubernetes' container runtimes (CRI), which
 * collectors of logs read: "TIME stdout F text", with P in place of F if the line goes on.
 *
 *   log    the newest
 *   log.1  what came before; each is at most half of the size that was asked for
 */
#pragma once

#include "store/store.h"

/* --- the supervisor's end ----------------------------------------------------------------- */

struct service_log {
	char *path, *old;   /* absolute */
	int fd, plain;      /* plain: a file that gets the output as it is; -1: none */
	uint64_t size, max; /* of one file */
	uint64_t lost;      /* lines that could not be written since the last that could */
	int why;            /* errno of that */
};

#define SERVICE_LOG_INIT              \
	{                             \
		.fd = -1, .plain = -1 \
	}
void service_log_done(struct service_log *l);

/* Open the log of a service, at its end.
 *
 *   size   bytes of both files
 *   plain  a file to append the output to as it is, or NULL; what cannot be written there is only
 * in the log
 *
 * Returns 0 or -errno. */
int service_log_open(struct store *st, const char *name, uint64_t size, const char *plain,
	struct service_log *ret, struct mlr_error *err);

/* Add what was printed. What cannot be written is lost, and how much that was is written later, so
 * that a full disk does not stop the command. */
void service_log_put(struct service_log *l, const char *stream, const char *text, size_t len);

/* --- the reader's end --------------------------------------------------------------------- */

#define SERVICE_TIME 40 /* bytes of a time as the log has it */

/* Write a time as the log has it. */
void service_time(const struct timespec *t, char ret[SERVICE_TIME]);

/* Lines of these times only, and of these the last; "": all times; -1: all lines. */
struct service_range {
	char since[SERVICE_TIME], until[SERVICE_TIME];
	int64_t tail;
};

struct service_reader {
	char *path, *old;
	struct service_range range;
	int out; /* the last line of each stream is not of the range; bits */
	FILE *file;
	int is_old; /* file is log.1 */
	ino_t inode;
	char *line; /* what was read of a line so far */
	size_t len;
	uint64_t skip; /* lines that are not wanted */
	int goes_on;   /* the last line of each stream was P; bits */
};

void service_reader_done(struct service_reader *r);

/* Begin to read a service's log. range NULL: all. */
void service_reader_open(struct store *st, const char *name, const struct service_range *range,
	struct service_reader *ret);

struct service_line {
	const char *time, *text; /* the reader's, until the next call */
	size_t len;
	int is_error; /* printed on stderr */
	int begins;   /* is the beginning of a line */
	int ends;     /* is its end */
};

/* Get the next. Returns 1, or 0 if there is none yet. */
int service_reader_next(struct service_reader *r, struct service_line *ret);
