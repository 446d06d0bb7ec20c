/*
 * Chooses the format for an image when the user does not. A file system shared by many nodes
 * handles one large file better than 100,000 small ones. On others, unpacked layers are shared by
 * images and start fastest, if an ordinary user can have what overlayfs needs there.
 */
#ifndef MLR_PULL_FORMAT_H
#define MLR_PULL_FORMAT_H

#include "base/error.h"
#include "base/filesystem.h"
#include "store/facts.h"
#include "store/store.h"

/* What the store's file system lets this user do (runtime/probe.h). */
struct format_probe {
	int whiteouts, xattrs, hard_links;
	int overlay; /* -1 if unknown */
};

/* Find out, in an empty directory below dir_fd; needs to mount and fork. Returns 0 or -errno. */
typedef int (*format_probe_fn)(int dir_fd, struct format_probe *ret, struct mlr_error *err);

/*
 * Choose a format.
 *
 *   can_write  mlrun can write squashfs files
 *   why        why it is not the usual format ("it lies on nfs"), or NULL; to free()
 */
enum store_format format_judge(
	const struct filesystem *fs, const struct format_probe *p, int can_write, char **why);

/*
 * Choose a format for a store. Keeps the probe's results in the store's "probe.json" and probes
 * again if that is deleted or the store has moved to another file system.
 *
 *   told  gets a sentence for the user if the choice is new and not the usual one; to free(), NULL
 *         otherwise
 */
int format_choose(struct store *st, format_probe_fn probe, enum store_format *ret, char **told,
	struct mlr_error *err);

#endif
