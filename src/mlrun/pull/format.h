/*
 * Chooses the format for an image when the user does not. A file system shared by many nodes
 * handles one large file better than 100,000 small ones. On others, unpacked layers are shared by
 * images and start fastest, if an ordinary user can have what overlayfs needs there.
 */
#pragma once

#include "base/filesystem.h"
#include "store/facts.h"
#include "store/probe.h"

/*
 * Choose a format.
 *
 *   can_squash  mlrun can write squashfs files, and show them here
 *   why         why it is not the usual format ("it lies on nfs"), or NULL; to free()
 */
enum store_format format_judge(
	const struct filesystem *fs, const struct filesystem_probe *p, int can_squash, char **why);

/*
 * Choose a format for a store. Probes it unless the store keeps the results of an earlier probe
 * (store/probe.h).
 *
 *   told  gets a sentence for the user if the choice is new and not the usual one; to free(), NULL
 *         otherwise
 */
int format_choose(struct store *st, store_probe_fn probe, enum store_format *ret, char **told,
	struct mlr_error *err);
