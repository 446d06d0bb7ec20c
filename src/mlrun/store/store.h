/*
 * store: keeps blobs, names and unpacked trees on disk, safe for many processes on many nodes.
 *
 *   version                 the store's format, "3\n"
 *   blobs/sha256/<hex>      manifests and configurations, byte for byte
 *   layers/<hex>/tree       one unpacked layer, named by its diff ID, shared by its images
 *   layers/<hex>/implicit   directories that the layer used without naming them, a NUL after each
 *   layers/<hex>/hiding     directories in which it hides names of lower layers, likewise
 *   layers/<hex>/notes      a digest of these two
 *   layers/<hex>/open       directories that everybody may write to (store/open_dirs.h)
 *   cover/<hex>/tree        directories to mount above an image's layers, named by its manifest, if
 *                           an overlay of the layers alone would differ from the image
 *   dir/<hex>/tree          a whole image as one tree, likewise, if overlayfs cannot show it
 *   dir/<hex>/listing       a digest of the tree's names; a cover has one, too
 *   squash/<hex>.sqfs       a whole image as one squashfs file, likewise
 *   facts/<hex>.json        what exec needs to know of an image, likewise
 *   images/<hex>.json       a reference, named by the sha256 of its canonical spelling
 *   cache/<hex>.json        the layer that a step of a build made (store/cache.h)
 *   containers/<name>/      what exec --write kept (store/container.h); only the owner may enter
 *   services/<node>/<name>/ services (work/service.h); only the owner may enter
 *   workers/<hex>/          workers (work/worker.h); only the owner may enter
 *   elastic/<hex>/          elastic runs (work/elastic.h); only the owner may enter
 *   leases/                 which processes use which images
 *   unsynced/               marks of trees that may not be fully on disk yet
 *   holds/                  processes that change the store, and what they rely on (store/hold.h)
 *   tmp/                    work in progress; each entry names the hold of its maker
 *
 * Everything is published by rename(2): a crash leaves the old state or the new one. A tree that a
 * crash of the machine left incomplete has a mark in unsynced/ and counts as absent.
 */
#pragma once

#include "base/base.h"

struct store;

/*
 * Open a store.
 *
 *   dir     its directory; NULL: where store_place() says
 *   create  to add to the store: make it if it is missing, and refuse another user's; otherwise a
 *           missing store is -ENOENT
 *
 * A store is refused, with a hint, if its format is newer, if others than its owner may write to
 * it, or if root opens another user's (store/guard.h).
 */
int store_open(const char *dir, int create, struct store **ret, struct mlr_error *err);
void store_close(struct store *st);

/* The store's top directory: a descriptor (the store's own) and its absolute name. */
int store_fd(const struct store *st);
const char *store_path(const struct store *st);

/*
 * Protect the store's contents from removal until store_close(), so that what the caller found (a
 * layer that need not be fetched) still exists when it publishes a name: rm and prune of other
 * processes wait. The process's umask becomes 022, since everybody whom the top directory lets in
 * reads the store. Adding to the store holds it anyway; call this before a look that decides what
 * to add.
 *
 * Returns 0; -EROFS and the like if the caller may not write to the store; -ESTALE if this process
 * was suspended for so long that another one considered it dead.
 */
int store_hold(struct store *st, struct mlr_error *err);

/* Protect only these digests ("sha256:…": layers by diff ID and blob, manifests, configurations,
 * indexes) instead of what was held before: others may remove the rest. */
int store_hold_only(struct store *st, const struct strv *digests, struct mlr_error *err);

/* Returns -ESTALE, with a hint, if another process considered this one dead because it was
 * suspended: its work is void, whatever error it met. Else 0. */
int store_hold_check(struct store *st, struct mlr_error *err);

/*
 * Make waits for other processes cancellable: each waiting thread calls cancelled at least ten
 * times a second; not 0 ends the wait with -ECANCELED. NULL: wait for ever.
 */
void store_set_cancelled(struct store *st, int (*cancelled)(void *ctx), void *ctx);

/*
 * Remove what killed processes left in tmp/, and leases of processes that ended. Never waits and
 * never fails: what is in use or cannot be removed stays. Call it after the work, because file
 * systems create files slowly right after deleting many.
 */
void store_sweep(struct store *st);

/* Is there any work in tmp/, under way or left over? 1 or 0. */
int store_has_work(struct store *st);

/*
 * Sync what was added, in a process that stays behind until that is done; in a batch job, wait for
 * it. Call it after the last addition.
 */
void store_settle(struct store *st);

MLR_CLEANUP(store_cleanup, struct store *, store_close);
#define auto_store __attribute__((cleanup(store_cleanup)))
