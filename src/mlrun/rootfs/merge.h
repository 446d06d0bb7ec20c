/*
 * Merges layers of the store into one, which changes what is below as they do one after another
 * (OCI image-spec, layer.md): of each path the topmost layer's member stays, and what a lower layer
 * hides stays hidden.
 */
#pragma once

#include "oci/digest.h"
#include "store/store.h"

/*
 *   diff_ids  n layers, lowest first
 *   ret       gets the diff ID of the new layer, which is in the store then
 *   bytes     gets the length of its tar
 *   cancel    read atomically; not 0 stops the work with -ECANCELED. May be NULL
 *
 * Returns 0; -ENOENT if the store lacks a layer or its record; errors of rootfs_fill().
 */
int rootfs_merge(struct store *st, char *const *diff_ids, size_t n, const int *cancel,
	char ret[OCI_DIGEST_SIZE], uint64_t *bytes, struct mlr_error *err);
