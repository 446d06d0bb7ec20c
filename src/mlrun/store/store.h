/*
 * store: keeps blobs, names and unpacked trees on disk, safe for many processes on many nodes.
 *
 *   version                  the store's format, "3\n"
 *   blobs/sha256/<hex>       manifests and configurations, byte for byte
 *   layers/<hex>/tree        one unpacked layer, named by its diff ID, shared by all that have it
 *   layers/<hex>/implicit    directories that the layer used without naming them, a NUL after each
 *   layers/<hex>/hiding      directories in which it hides names of the layers below, alike
 *   layers/<hex>/notes       a digest of these two
 *   layers/<hex>/open        directories that anybody is meant to write to (store/open_dirs.h)
 *   cover/<hex>/tree         directories that lie above an image's layers, by its manifest, where
 *                            an overlay of the layers alone would differ from them
 *   dir/<hex>/tree           a whole image as one tree, by its manifest, where overlay can't serve
 *   dir/<hex>/listing        a digest of the tree's names; a cover has one as well
 *   squash/<hex>.sqfs        a whole image as one squashfs file, by its manifest
 *   facts/<hex>.json         what exec needs to know of an image, named by its manifest
 *   images/<hex>.json        a reference, named by the sha256 of its canonical spelling
 *   containers/<name>/       what was written in an image and is kept (store/container.h); nobody
 *                            else may enter
 *   leases/                  who uses what
 *   unsynced/                which trees may not be wholly on disk yet
 *   holds/                   who changes the store, and what he counts on (store/hold.h)
 *   tmp/                     work in progress; each entry names the hold of its maker
 *
 * Everything is published by rename(2): a crash leaves the old state or the new one. A tree that
 * the machine's going down cut short is known by its mark in unsynced/ and counts as not there.
 */
#ifndef MLR_STORE_STORE_H
#define MLR_STORE_STORE_H

#include "base/error.h"
#include "base/strv.h"

struct store;

/*
 * Open a store.
 *
 *   dir     where; NULL: $MLRUN_STORE, else "store" of the configuration (base/config.h), else
 *           $XDG_DATA_HOME/mlrun, else ~/.local/share/mlrun
 *           (the home directory by $HOME, else the user database)
 *   create  for adding to it: make it when it is not there, refuse that of another user;
 *           otherwise its absence is -ENOENT
 *
 * A store of a newer format, one that others than its owner may write to, and for root one of
 * another user's is refused with the way out (store/guard.h).
 */
int store_open(const char *dir, int create, struct store **ret, struct mlr_error *err);
void store_close(struct store *st);

/* The store's top directory: a descriptor (the store's own) and its absolute name. */
int store_fd(const struct store *st);
const char *store_path(const struct store *st);

/*
 * Keep what is in the store there until store_close(), so that what the caller found (a layer that
 * need not be fetched) is still there when it publishes a name: rm and prune of other processes
 * wait. From then on the process's umask is 022, as a store is read by all whom its top directory
 * lets in. Adding to the store does this by itself; call it before the first look when that look
 * decides what to add.
 *
 * Returns 0; -EROFS and the like for a store that the caller may not write to; -ESTALE when this
 * process stood still for so long that another one took it for dead.
 */
int store_hold(struct store *st, struct mlr_error *err);

/* The same for what has certain digests ("sha256:…": layers by diff ID and blob, manifests,
 * configurations, indexes), in the place of what was held before: others may remove the rest. */
int store_hold_only(struct store *st, const struct strv *digests, struct mlr_error *err);

/* Has another process taken this one for dead, as it stood still for so long? -ESTALE with the way
 * out: what it did is void, whatever error it met. Else 0. */
int store_hold_check(struct store *st, struct mlr_error *err);

/*
 * Let somebody end the waits for other processes: cancelled is asked at least ten times a second,
 * from any thread that waits, and not 0 ends the wait with -ECANCELED. NULL: wait for ever.
 */
void store_set_cancelled(struct store *st, int (*cancelled)(void *ctx), void *ctx);

/*
 * Remove what killed processes left in tmp/, and leases of processes that ended. Never waits and
 * never fails: what is in use or cannot be removed stays. Meant for after the work, because file
 * systems are slow at creating files right after deleting many.
 */
void store_sweep(struct store *st);

/* Is there any work in tmp/, under way or left over? 1 or 0. */
int store_has_work(struct store *st);

/*
 * Have what was added written to disk, by a process that stays behind until that is done; in a
 * batch job, wait for it. To be called after the last addition.
 */
void store_settle(struct store *st);

static inline void store_cleanup(struct store **st)
{
	store_close(*st);
}
#define auto_store __attribute__((cleanup(store_cleanup)))

#endif
