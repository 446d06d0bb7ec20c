/* The caller as the container shall know him: ids, names, home, working directory. */
#ifndef MLR_EXEC_CALLER_H
#define MLR_EXEC_CALLER_H

#include "base/error.h"
#include "plan/plan.h"

/* Fill in p->id from the process's ids and the user database; an unknown uid gets a name of its
 * own. With fakeroot the inner ids are 0 and home is /root. */
void caller_identity(struct plan *p, int fakeroot);

/* The caller's home directory on the host, as a clean path: $HOME, else the user database's; NULL
 * when neither is absolute. To free(). */
char *caller_home(void);

enum caller_place { CALLER_ELSEWHERE, CALLER_AT_HOME, CALLER_ABOVE_HOME };

/*
 * The caller's working directory when a container may have it, to free(); else NULL: it is "/", a
 * directory of the system's, or gone.
 *
 *   home   the caller's home directory, or NULL
 *   place  where the working directory is, seen from home, whatever links home's name goes through
 */
char *caller_workdir(const char *home, enum caller_place *place);

/* Is this clean path in a directory of the system's, which an image brings itself? */
int caller_is_system_path(const char *path);

#endif
