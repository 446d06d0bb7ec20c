/* The caller as the container shall know him: ids, names, home, working directory. */
#ifndef MLR_EXEC_CALLER_H
#define MLR_EXEC_CALLER_H

#include "base/error.h"
#include "plan/plan.h"

/* Fill in p->id from the process's ids and the user database; an unknown uid gets a name of its own.
 * With fakeroot the inner ids are 0 and home is /root. */
void caller_identity(struct plan *p, int fakeroot);

/* The caller's home directory on the host: $HOME, else the user database's; NULL when neither is absolute. To free(). */
char *caller_home(void);

/*
 * The caller's working directory when the container should have it, to free(); else NULL: it is
 * "/", a directory of the system's, the bare home directory, or gone.
 *
 *   bare_home  set to 1 when it is the home directory itself
 */
char *caller_workdir(const char *home, int *bare_home);

#endif
