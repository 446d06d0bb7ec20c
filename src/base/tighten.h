/*
 * Trees that others may enter but not change: nothing in them serves anybody but their owner to
 * write to, or runs with his rights.
 */
#ifndef MLR_BASE_TIGHTEN_H
#define MLR_BASE_TIGHTEN_H

#include "base/error.h"

#include <sys/stat.h>

/* What no file, directory or fifo of such a tree has. */
#define TIGHTEN_BITS (S_ISUID | S_ISGID | S_IWGRP | S_IWOTH)

/*
 * Takes a name that has some of these bits, or another owner than the tree.
 *
 *   path  in the tree, "." for its top
 *   st    what it was before
 */
typedef void (*tighten_fn)(void *ctx, const char *path, const struct stat *st);

/*
 * Find all such names of a tree, a directory before what is in it. What this user may not read is
 * passed over.
 *
 *   dirfd, tree  its top, as openat(2) takes it
 */
int tighten_find(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err);

/*
 * Take the bits off all that belongs to the tree's owner, who calls; directories that he may not
 * read are made readable for the while. To be done again where it was cut short. found may be NULL.
 *
 * Returns 0 or -errno.
 */
int tighten_tree(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err);

#endif
