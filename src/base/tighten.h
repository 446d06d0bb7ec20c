/*
 * Keeps trees safe that other users may enter: takes away write permission for others, and set-ID
 * bits.
 */
#pragma once

#include "base/error.h"

#include <sys/stat.h>

/* Mode bits that no file, directory or fifo of such a tree has. */
#define TIGHTEN_BITS (S_ISUID | S_ISGID | S_IWGRP | S_IWOTH)

/*
 * Receives a name that has some of these bits, or another owner than the tree.
 *
 *   path  in the tree, "." for its top
 *   st    what it was before
 */
typedef void (*tighten_fn)(void *ctx, const char *path, const struct stat *st);

/*
 * Find all such names of a tree, directories before their contents. Skips what this user may not
 * read.
 *
 *   dirfd, tree  its top, as in openat(2)
 */
int tighten_find(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err);

/*
 * Clear the bits of everything that belongs to the tree's owner, who is the caller. Directories
 * that are unreadable are made readable meanwhile. Repeat it if it was interrupted. found may be
 * NULL.
 *
 * Returns 0 or -errno.
 */
int tighten_tree(int dirfd, const char *tree, tighten_fn found, void *ctx, struct mlr_error *err);
