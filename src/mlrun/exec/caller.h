/* Describes the caller to the container: ids, names, home, working directory. */
#ifndef MLR_EXEC_CALLER_H
#define MLR_EXEC_CALLER_H

#include "base/error.h"
#include "plan/plan.h"

/* Fill in p->id from the process's ids and the user database; an unknown uid gets a name of its
 * own. With fakeroot the inner ids are 0 and home is /root. */
void caller_identity(struct plan *p, int fakeroot);

/* The caller's home directory on the host as a clean path: $HOME, else the user database's. To
 * free(); NULL if neither is absolute. */
char *caller_home(void);

enum caller_place { CALLER_ELSEWHERE, CALLER_AT_HOME, CALLER_ABOVE_HOME };

/*
 * The caller's working directory if a container may have it, to free(). NULL if it is "/", a
 * directory of the system, or gone.
 *
 *   home   the caller's home directory, or NULL
 *   place  where the directory is relative to home, whatever links home's name contains
 */
char *caller_workdir(const char *home, enum caller_place *place);

/* Is this clean path in a system directory, which an image has itself? */
int caller_is_system_path(const char *path);

#endif
