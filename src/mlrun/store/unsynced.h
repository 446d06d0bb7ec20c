/*
 * Trees that are in place but perhaps not wholly on disk yet. Waiting for the disk takes longer
 * than unpacking, so on a local file system a tree is published first and synced after the pull has
 * ended; until then a mark, "unsynced/<part>-<hex>.<boot>.<16 hex>", stands beside it. File systems
 * keep the order of their metadata (btrfs is made to): where the tree survives a crash of the
 * machine, its mark does. A mark of an earlier boot therefore tells a tree whose files may be
 * empty, and it is fetched again. Each mark has a name of its own: who takes back the mark of a
 * tree that was removed leaves that of the tree which has come in its place.
 *
 * For the room's own files.
 */
#ifndef MLR_STORE_UNSYNCED_H
#define MLR_STORE_UNSYNCED_H

#include "base/error.h"
#include "store/store.h"

/*
 * May a tree be published before it is synced? Only on the file systems of local disks: others
 * write late on one node what another node may read at once. 1 or 0.
 */
int unsynced_allowed(struct store *st);

/* Mark a tree, "layers/<hex>", before it is published. Returns 0 or -errno: then sync instead. */
int unsynced_mark(struct store *st, const char *path);

/* Was the machine restarted before this tree was synced? 1 or 0. Cheap when no mark is there. Where
 * the file system is another machine's, whose boots nobody here knows, always 0. */
int unsynced_is_suspect(struct store *st, const char *path);

/* The suspect tree is gone, or another is in its place: forget its marks of earlier boots. */
void unsynced_forget(struct store *st, const char *path);

/* Forget the marks of earlier boots of trees that were removed. */
void unsynced_sweep(struct store *st);

#endif
