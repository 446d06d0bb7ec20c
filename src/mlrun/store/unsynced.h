/*
 * Trees that are published but perhaps not fully on disk. Syncing takes longer than unpacking, so
 * on a local file system a tree is published first and synced after the pull. Until then a mark,
 * "unsynced/<part>-<hex>.<boot>.<16 hex>", exists. File systems keep the order of their metadata
 * (btrfs needs a sync): if the tree survives a crash of the machine, so does its mark. A mark of an
 * earlier boot therefore means that the tree's files may be empty; it is fetched again. Each mark
 * has a unique name, so removing that of a deleted tree never removes that of its successor.
 *
 * For the files of this room.
 */
#pragma once

#include "store/store.h"

/*
 * May a tree be published before it is synced? 1 only on local disks' file systems: on others,
 * another node may read the tree before this one has written it.
 */
int unsynced_allowed(struct store *st);

/* Mark a tree, "layers/<hex>", before it is published. Returns 0, or -errno: sync it first instead.
 */
int unsynced_mark(struct store *st, const char *path);

/* Did the machine restart before this tree was synced? Cheap without marks. Always 0 on file
 * systems of other machines, whose boots are unknown. */
int unsynced_is_suspect(struct store *st, const char *path);

/* Delete a tree's marks of earlier boots: it was removed or replaced. */
void unsynced_forget(struct store *st, const char *path);

/* Delete marks of earlier boots whose trees were removed. */
void unsynced_sweep(struct store *st);
