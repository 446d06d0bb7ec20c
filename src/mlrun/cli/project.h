/* A compose file as services that can be started. */
#pragma once

#include "compose/compose.h"
#include "store/store.h"
#include "work/service.h"

#include <signal.h>

/* What the command line says of a project. */
struct project_wish {
	struct strv files; /* "-": standard input; empty: $COMPOSE_FILE, else compose.yaml and the
			      like, with its override */
	struct strv env_files;              /* in place of .env beside the first file */
	struct strv profiles, names, scale; /* as in struct compose_wish */
	const char *directory;              /* NULL: the first file's */
	const char *name; /* NULL: $COMPOSE_PROJECT_NAME, the files', or the directory's */
	int alone, config;
};

/* The rows of a command whose struct has it as w. */
#define PROJECT_ROWS(type)                                                                         \
	{ "file", 'f', "FILE", 0,                                                                  \
		"a compose file, or - for standard input; several are merged (default: "           \
		"compose.yaml here, with compose.override.yaml)",                                  \
		0, OPT(type, w.files) },                                                           \
		{ "project", 'p', "NAME", 0, "its name (default: the file's, or the directory's)", \
			0, OPT(type, w.name) },                                                    \
		{ "project-name", 0, NULL, OPTION_ALIAS },                                         \
		{ "project-directory", 0, "DIR", 0,                                                \
			"relative paths begin here (default: the first file's directory)", 0,      \
			OPT(type, w.directory) },                                                  \
		{ "env-file", 0, "FILE", 0, "variables of the files (default: .env)", 0,           \
			OPT(type, w.env_files) },                                                  \
	{                                                                                          \
		"profile", 0, "NAME", 0, "services of this profile, too", 0, OPT(type, w.profiles) \
	}

struct project {
	char *name, *directory;
	struct strv files;
	struct strv variables; /* of .env */
	struct compose_project compose;
};

void project_done(struct project *p);

/* Read a project. Returns 0, -ENOENT, -EINVAL, -EPROTO, with hints. */
int project_read(const struct project_wish *w, struct project *ret, struct mlr_error *err);

/* Read the project's name alone: that of the wish, else that of the files, whose other variables
 * may be missing. to free(); NULL: err says why. */
char *project_name(const struct project_wish *w, struct mlr_error *err);

/* Bring the image of a service: pull what is missing or, with pull, again, and so build. Returns 0
 * or the exit status after a failure, which was printed. */
int project_bring(const struct project *p, const struct compose_service *c, const char *store,
	int build, int pull);

/* Is the service to be started? */
int project_starts(const struct compose_service *c);

#define PROJECT_VOLUMES "volumes" /* in the store, PROJECT/NAME; "_" has those of no project */

/* Make the directories that volumes lack, once the images are there. */
int project_prepare(
	const struct project *p, const char *store, struct store *st, struct mlr_error *err);

/* Remove the project's volumes. */
int project_forget_volumes(const char *name, struct store *st, struct mlr_error *err);

/* Name a service's image; to free(). */
char *project_image_of(const struct project *p, const struct compose_service *c);

/* Name a replica; to free(). */
char *project_name_of(const struct project *p, const struct compose_service *c, long replica);

/*
 * Fill one replica of a service, whose image is there.
 *
 *   order  its place in the project
 *
 * Returns 0 or -EPROTO.
 */
int project_fill(const struct project *p, const struct compose_service *c, long replica, long order,
	const char *store, struct store *st, struct service *ret, struct mlr_error *err);

/* --- commands in services (compose_service.c) ------------------------------------------------ */

/* mlrun compose exec and run. argv[0] is the command; the wish is the project's. Returns the exit
 * status. */
int compose_exec(struct project_wish *w, const char *store, int argc, char **argv);
int compose_run(struct project_wish *w, const char *store, int argc, char **argv);

/* --- starting (project_start.c) -------------------------------------------------------------- */

struct project_start {
	const struct project *p;
	const char *command, *store; /* for messages; --store */
	int64_t timeout_ms;          /* as service_stop()'s */
	int build, pull, no_start, again, remove_orphans;
	const struct compose_service *one_off; /* all is made ready for it, but it is not started;
						  NULL */
	const volatile sig_atomic_t *interrupted; /* a signal's number: nothing more is started */
	/* What is there then. */
	struct store *st;
	struct service_list list; /* in the order of starting */
	struct strv open;         /* services that others reach, though the file does not say so */
	struct strv fresh;        /* services that were started now */
};

/* Bring the images and start the services that are wanted, each when what it needs is there. Ports
 * that are root's are refused before. Returns 0 or the exit status after a failure, which was
 * printed. */
int project_start(struct project_start *u);
void project_start_done(struct project_start *u);
