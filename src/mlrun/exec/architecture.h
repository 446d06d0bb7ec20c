/* Can this machine run the image's programs? */
#ifndef MLR_EXEC_ARCHITECTURE_H
#define MLR_EXEC_ARCHITECTURE_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Compare plan->platform with the machine. Where it is another's, an emulator that is registered
 * with the kernel (/proc/sys/fs/binfmt_misc) makes up for it, and a note says so; a mere word that
 * no machine is known by is let pass, as the kernel will tell.
 *
 *   root  "/" but for tests
 *
 * Returns 0, or -ENOEXEC naming both and the way out.
 */
int architecture_check(const char *root, struct plan *p, struct mlr_error *err);

#endif
