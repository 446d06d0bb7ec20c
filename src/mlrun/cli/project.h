/* A compose file as services that can be started. */
#ifndef MLR_CLI_PROJECT_H
#define MLR_CLI_PROJECT_H

#include "base/error.h"
#include "compose/compose.h"
#include "store/store.h"
#include "work/service.h"

struct project {
	char *name, *file, *directory;
	struct strv variables; /* of .env beside the file */
	struct compose_project compose;
};

#define PROJECT_INIT \
	{            \
		0    \
	}
void project_done(struct project *p);

/*
 * Read a project.
 *
 *   file  NULL: compose.yaml and the like of the working directory
 *   name  NULL: $COMPOSE_PROJECT_NAME, the file's, or its directory's
 *
 * Returns 0, -ENOENT, -EINVAL, -EPROTO, with hints.
 */
int project_read(const char *file, const char *name, struct project *ret, struct mlr_error *err);

/* The project's name alone: name, else that of the file. to free(); NULL: err says why. */
char *project_name(const char *file, const char *name, struct mlr_error *err);

/* Bring the image of a service: pull what is missing, build what is missing or, with build, again.
 * Returns 0 or the exit status after a failure, which was printed. */
int project_bring(
	const struct project *p, const struct compose_service *c, const char *store, int build);

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
	const char *store, struct service *ret, struct mlr_error *err);

#endif
