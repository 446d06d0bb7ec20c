/*
 * compose: the language of compose files (compose-spec, https://compose-spec.io). Parses; runs
 * nothing.
 *
 * What makes sense without networks of its own is read; what only Docker's daemon or rights could
 * do is ignored, and listed; all else is refused by its name and line. Values are interpolated:
 * $VAR, ${VAR}, ${VAR:-default} and kin, $$ for a dollar sign.
 */
#pragma once

#include "base/base.h"
#include "base/reach.h"

enum compose_condition { COMPOSE_STARTED, COMPOSE_HEALTHY, COMPOSE_COMPLETED };

struct compose_need {
	char *service;
	enum compose_condition condition;
	int required; /* 0: the service may be missing */
	int restart;  /* start the needing one again after it */
};

enum compose_restart { COMPOSE_NO_RESTART, COMPOSE_ON_FAILURE, COMPOSE_ALWAYS };

/* Members that the file does not set are NULL, empty, or as said. */
struct compose_service {
	char *name, *image, *container_name, *working_dir, *user, *hostname;
	int is_wanted; /* it is to be started */

	char *context, *dockerfile, *target; /* of build; context NULL: it is not built */
	char *recipe;                        /* in place of dockerfile: its text */
	struct strv build_args;              /* "K=V" */

	int has_entrypoint;
	struct strv command, entrypoint;
	struct strv environment; /* "K=V", files' first; a name twice: the last counts */
	/* As -v takes them. Sources are absolute; "@/NAME" is a volume of the project, "_/NAME" one
	 * that projects share. */
	struct strv volumes;
	struct strv volumes_from; /* "SERVICE" or "SERVICE:ro"; volumes has theirs, too */
	struct strv options;      /* further ones of mlrun exec */
	struct strv hosts;        /* other names by which services find it */
	struct strv profiles;     /* it is there if one of them is asked for; none: always */
	struct strv tmpfs;        /* as --tmpfs takes them */
	int read_only, init;
	int has_ports;     /* it says which ports shall be reachable */
	int is_narrow;     /* for one address only */
	struct strv ports; /* "PUBLISHED TARGET ADDRESS" of TCP; the address may be empty: all */

	struct compose_need *needs;
	size_t n_needs;

	int has_check, no_check;
	struct strv test; /* a command; empty: the image's */
	/* In milliseconds; 0: not set. */
	int64_t interval, timeout, start_period, start_interval;
	long retries;

	enum compose_restart restart;
	long restarts_max; /* of COMPOSE_ON_FAILURE; 0: any number */
	long replicas;     /* 1 unless set */
	int64_t stop_ms;   /* -1: not set */
	int stop_signal;   /* 0: not set */
};

struct compose_project {
	char *name;                       /* NULL: not set */
	struct compose_service *services; /* each after those that it needs */
	size_t n;
	struct strv others;  /* services that no profile asks for */
	struct strv ignored; /* keys, each once */
	char *text;          /* the files merged into one, in YAML; NULL: too long */
};

void compose_project_done(struct compose_project *p);

/* The value of a variable, or NULL. */
typedef const char *(*compose_lookup)(void *ctx, const char *name);

struct compose_text {
	const char *name; /* for messages */
	const char *text;
	size_t size;
};

/* What to read. */
struct compose_wish {
	const struct compose_text *files; /* the later win over those before */
	size_t n;
	const char *directory; /* absolute; what relative paths are relative to */
	struct strv names;     /* services that are wanted; empty: all */
	int alone;             /* without what they need */
	struct strv scale;     /* "SERVICE=REPLICAS" */
	int with_text;         /* fill compose_project.text */
	compose_lookup look;
	void *ctx;
};

/*
 * Read files, those that they extend and include, and env_file.
 *
 *   refused  gets what is wrong with variables and services, but for what err says
 *
 * COMPOSE_PROFILES has the profiles that are asked for. Returns 0; -EINVAL or -EPROTO naming file
 * and line; or the errno of reading a file.
 */
int compose_parse(const struct compose_wish *w, struct compose_project *ret, struct strv *refused,
	struct mlr_error *err);

/* The service of that name, or NULL. */
struct compose_service *compose_find(const struct compose_project *p, const char *name);

/* Read the project's name alone, which needs no other variables. *ret to free(); NULL: the files
 * have none. */
int compose_parse_name(const struct compose_wish *w, char **ret, struct mlr_error *err);

/*
 * Read lines "K=V" of a .env file: comments, "export", quotes and variables, also those of lines
 * before. Adds to ret, in which a name stands once.
 *
 * Returns 0, -EINVAL naming the line.
 */
int compose_env_parse(const char *text, const char *file, compose_lookup look, void *ctx,
	struct strv *ret, struct mlr_error *err);

/* List the keys, by their places: "services.NAME.volumes". A value may name the caller's variables
 * anywhere ($VAR). */
void compose_each_reach(reach_fn fn, void *ctx);

/* Is it a project's name, [a-z0-9][a-z0-9_-]*? */
int compose_is_project(const char *name);

/* Replace the variables in a text; to free(). NULL: err says why. */
char *compose_interpolate(const char *text, compose_lookup look, void *ctx, struct mlr_error *err);
