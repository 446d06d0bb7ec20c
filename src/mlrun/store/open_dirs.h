/*
 * Directories of an image that everybody may write to (/var/tmp, /run/lock). The store's trees lack
 * the bits that let other users write (base/tighten.h); a container gets its own copies of these
 * directories with the image's modes.
 */
#pragma once

#include "store/facts.h"

/* The note beside a layer's tree: "1777 var/tmp", a NUL after each; absent without any. */
#define STORE_OPEN_NOTE "open"
#define STORE_OPEN_MAX  64 /* per layer, and per image */

/*
 * The directories of this kind that an image shows, "1777 /var/tmp".
 *
 *   f  its diff_ids and formats, which the store holds
 *
 * Names that are not ASCII are left out. Directories that an opaque directory hides are not, but a
 * container skips what it does not have.
 */
int store_open_dirs(struct store *st, const char *manifest, const struct store_facts *f,
	struct strv *ret, struct mlr_error *err);
