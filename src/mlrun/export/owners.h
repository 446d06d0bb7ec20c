/*
 * Finds the owners and full modes of an image's files, which unpacked trees cannot hold, in its
 * layers' tars. For this room's other files.
 */
#ifndef MLR_EXPORT_OWNERS_H
#define MLR_EXPORT_OWNERS_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

#include <stdint.h>
#include <sys/types.h>

struct owner {
	int64_t uid, gid;
	mode_t mode; /* permissions with set-ID and sticky bits */
};

struct owners;

/*
 * Read the tars of these layers, lowest first.
 *
 *   flat  the tree of the whole image, where links of one layer lead members of another; -1: the
 *         trees of the layers
 *
 * Returns 0, or pack_rebuild()'s errors: the layers are checked as well.
 */
int owners_read(struct store *st, const struct strv *diff_ids, int flat, const int *cancel,
	struct owners **ret, struct mlr_error *err);
void owners_free(struct owners *o);

/* What the topmost layer with this path says, or NULL. path has no symlinks. */
const struct owner *owners_find(const struct owners *o, const char *path);

#endif
