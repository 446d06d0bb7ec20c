/* /etc/passwd and /etc/group that know the caller. */
#ifndef MLR_RUNTIME_ACCOUNTS_H
#define MLR_RUNTIME_ACCOUNTS_H

#include "base/error.h"
#include "plan/plan.h"

/*
 * The image's file with one line for the caller put first and the image's lines of the same id or
 * name left out; an inner uid 0 keeps the image's own line for root. Pure text to text.
 *
 *   old   the image's file, or NULL
 *
 * Returns the new text, to free(), or NULL when the old one serves as it is.
 */
char *accounts_passwd(const char *old, const struct plan_identity *id);
char *accounts_group(const char *old, const struct plan_identity *id);

/* An image's file in an open directory, as text to free(); NULL when it cannot be had. */
char *accounts_read(int dir, const char *name);

/* Fail with -EISDIR: the image's file is a directory. */
int accounts_is_directory(const char *path, struct mlr_error *err);

/* Put both files into the container's root. */
int accounts_write(int root, const struct plan_identity *id, struct mlr_error *err);

#endif
