/*
 * A run: a directory with what one start of a command wrote.
 *
 *   run.json       what was started; written before the start (struct run_wish)
 *   end.json       how it ended, once this is known
 *   log            what the command printed
 *   metrics.jsonl  what it measured: lines of JSON (mltrain's --log, or another program's)
 *
 * Other programs' directories are runs, too, if a *.jsonl in them has lines of numbers; these are
 * only read. All of it is untrusted: any file may be damaged, huge, another's, or change meanwhile.
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

#define RUN_ID_SIZE  17
#define RUN_TEXT_MAX (1u << 20) /* bytes of run.json and end.json */

enum run_state {
	RUN_WAITING,
	RUN_RUNNING,
	RUN_SUCCEEDED,
	RUN_FAILED,
	RUN_STOPPED,
	RUN_LOST,    /* nothing knows how it ended */
	RUN_UNKNOWN, /* another program's, which nothing supervises */
};
extern const char *const run_state_names[RUN_UNKNOWN + 1];

/* The contents of run.json. */
struct run_wish {
	char *name, *experiment, *image, *note;
	struct strv command, tags;
	char *place;   /* "here" */
	char *service; /* its name */
	char *node;
	double created; /* seconds since the epoch, as all times */
};

struct run_metric {
	char *name;
	double value; /* the last */
};

struct run_value {
	char *key, *value;
};

/* What is known of a run. */
struct run {
	char id[RUN_ID_SIZE];
	char *directory;
	struct run_wish wish; /* name and experiment of others are their directories' */
	int is_own;           /* has a run.json of this user that no one else may write */
	uid_t owner;
	char *metrics, *log; /* files in the directory; NULL: none */

	enum run_state state;
	char *reason;          /* NULL: none */
	int has_end;           /* state is end.json's */
	double started, ended; /* NAN: unknown */

	/* Of the metrics. */
	/* As they were read; st_ino 0: never. */
	struct stat of_directory, of_metrics, of_log, of_wish, of_end;
	off_t read;              /* bytes of metrics read, to the end of a line */
	struct run_metric *last; /* [n_last], by name */
	size_t n_last;
	struct run_value *values; /* [n_values], by key */
	size_t n_values;
	double step, steps, clock, first_step, first_clock; /* clock: seconds of its records */
	struct strv notes;                                  /* what is odd, for people */

	/* The index's. */
	uint64_t changed; /* the number of its last change */
	uint64_t scan;    /* the last that found it */
};

void run_done(struct run *r);

/* The id of a directory's path. */
void run_id(const char *directory, char id[RUN_ID_SIZE]);

/* The name of the service of a run in a directory: its own, as far as it can be one, and some of
 * the id. To free(). */
char *run_service(const char *directory);

/*
 * Read a directory that may be a run.
 *
 *   dir    open
 *   path   the directory's, absolute
 *   was    what was known of it; NULL: nothing
 *
 * Returns 1 with a new description, RUN_SAME if nothing has changed, 0 if it is no run.
 */
int run_read(int dir, const char *path, const struct run *was, struct run *ret);
#define RUN_SAME 2

/* Read what has been added to the metrics and the log. Returns RUN_MORE_METRICS, RUN_MORE_LOG, both
 * or 0. */
int run_read_on(struct run *r);
#define RUN_MORE_METRICS 1
#define RUN_MORE_LOG     2

/* Open a regular file of the run for reading; also of another's directory nothing is waited for,
 * and no link is followed. Returns a descriptor or -errno. */
int run_open(const struct run *r, const char *name, struct stat *st);

/* Write run.json, which must not be there yet, or replace it. Returns 0 or -errno. */
int run_write_wish(int dir, const struct run_wish *w, int is_new, struct mlr_error *err);

/* Keep how it ended; is_new: unless that is kept already, which gives -EEXIST. */
int run_write_end(int dir, const struct run *r, int is_new, struct mlr_error *err);

/* Is it a run of this user's, which nobody else may write? */
int run_is_own(int dir);

/* Read run.json. Returns 0, -ENOENT, -EPROTO. */
int run_read_wish(int dir, struct run_wish *ret, struct mlr_error *err);
void run_wish_done(struct run_wish *w);

/* What the API says of it. */
json_t *run_json(const struct run *r);

/* The last value of a metric, or the number that a value is; NAN: it has none. */
double run_number(const struct run *r, const char *key);
/* The text of a value, or NULL. */
const char *run_text(const struct run *r, const char *key);

/* When anything of it was last written. */
double run_changed(const struct run *r);

/* How far it is, from 0 to 1, and how many seconds are left; NAN: unknown. */
double run_progress(const struct run *r);
double run_left(const struct run *r);
