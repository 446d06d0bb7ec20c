/*
 * The user's own store and additional ones, which others keep for everybody and which are only
 * read. $MLRUN_STORES (DIR:DIR…), else additional_stores of the configuration, names them. They are
 * searched in that order after the user's own.
 *
 * An image is used from one store, whole. Layers are not combined across stores, since the keeper
 * of an additional store does not know which of its layers other stores would need.
 */
#pragma once

#include "base/config.h"
#include "store/image.h"

struct stores {
	struct store **v; /* n of them, in search order */
	size_t n;
	int has_own; /* v[0] is the user's own, which exists */
};

/*
 * Open the stores that exist.
 *
 *   dir  the user's own, as in store_open()
 *   c    the configuration; NULL: read it
 *
 * A missing additional store is skipped; one that cannot be opened is skipped with a warning.
 * Returns 0; -ENOENT if none exists; or store_open()'s error for the user's own.
 */
int stores_open(const char *dir, const struct config *c, struct stores *ret, struct mlr_error *err);

/* Open only the additional ones, without own. Returns 0 or an error of the configuration. */
int stores_open_additional(const struct store *own, struct stores *ret, struct mlr_error *err);

void stores_close(struct stores *s);

/* Find the first store with the image. Returns as store_image_find_name() does; *st belongs to s.
 */
int stores_find(const struct stores *s, const struct oci_name *name, struct store **st,
	struct store_image *ret, struct mlr_error *err);

/* The store's default directory. */

/*
 * $MLRUN_STORE, else "store" of the configuration (base/config.h), else $XDG_DATA_HOME/mlrun, else
 * ~/.local/share/mlrun (the home directory by $HOME, else the user database).
 *
 *   ret     the directory, to free()
 *   origin  what names it, to free(): "MLRUN_STORE", "FILE:LINE", "XDG_DATA_HOME", "default"; may
 *           be NULL
 *
 * Returns 0, -EINVAL for a relative MLRUN_STORE, or -ENOENT for a user without a home directory.
 */
int store_place(const struct config *c, char **ret, char **origin, struct mlr_error *err);

/* The absolute path of a directory, or of its nearest existing parent, to free(). */
char *store_place_nearest(const char *path);
