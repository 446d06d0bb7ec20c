/*
 * Directories of an image that anybody is meant to write to (/var/tmp, /run/lock). The trees have
 * them without the bits that let others write (base/tighten.h): a container gets its own, with the
 * mode that is meant.
 */
#ifndef MLR_STORE_OPEN_DIRS_H
#define MLR_STORE_OPEN_DIRS_H

#include "base/error.h"
#include "base/strv.h"
#include "store/facts.h"
#include "store/store.h"

/* A layer's note of them, beside its tree: "1777 var/tmp", a NUL after each; none where it has
 * none. */
#define STORE_OPEN_NOTE "open"
#define STORE_OPEN_MAX  64 /* in a layer, and in an image */

/*
 * Those that an image shows, "1777 /var/tmp".
 *
 *   f  its diff_ids and formats; what they tell of is in the store
 *
 * Names that are no ASCII are left out, and what is hidden by an opaque directory is not: a
 * container makes none that it does not have.
 */
int store_open_dirs(struct store *st, const char *manifest, const struct store_facts *f,
	struct strv *ret, struct mlr_error *err);

#endif
