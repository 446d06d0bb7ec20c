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

/* Read the project's name alone: name, else that of the file, whose other variables may be missing.
 * to free(); NULL: err says why. */
char *project_name(const char *file, const char *name, struct mlr_error *err);

/* Bring the image of a service: pull what is missing, build what is missing or, with build, again.
 * Returns 0 or the exit status after a failure, which was printed. */
int project_bring(
	const struct project *p, const struct compose_service *c, const char *store, int build);

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

#endif
