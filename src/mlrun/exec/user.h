/* The inner identity as users write it: --user UID[:GID], or names that the image knows. */
#ifndef MLR_EXEC_USER_H
#define MLR_EXEC_USER_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * Change the plan's inner identity, after its root is known. Only what the process is called inside
 * changes: the one id of the user namespace is mapped to the caller, so files made are the caller's
 * and no others' files open up.
 *
 *   text        "1000", "1000:100", "jovyan", "jovyan:users"
 *   image_home  set to 1 when the home directory is one of the image's
 *
 * A user that the image's /etc/passwd has brings its name, group and home directory along; without
 * that the group is the caller's, or 0 with user 0.
 *
 * Returns 0; -EINVAL; -ENOENT for a name that the image does not know; -ENOTSUP for a name where
 * the image is a squashfs file and mlrun was built without libsquashfuse.
 */
int user_plan(const char *text, struct plan *p, int *image_home, struct mlr_error *err);

/* For tests: a line of passwd(5) or group(5) text by its name or, with name NULL, by its id. Gives
 * the line's fields, at most 7, as one allocation to free(); NULL when there is none. */
char *user_find_line(const char *text, const char *name, unsigned id, char *fields[7]);

#endif
