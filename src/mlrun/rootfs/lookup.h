/* Looking into an image's root without mounting it. */
#ifndef MLR_ROOTFS_LOOKUP_H
#define MLR_ROOTFS_LOOKUP_H

#include "base/error.h"
#include "plan/explain.h"
#include "plan/plan.h"

#include <stddef.h>

/*
 * Open a file as the overlay of plan->lowers would show it: whiteouts and opaque directories hide
 * what is below them, links are followed inside.
 *
 *   path  absolute
 *
 * Returns an O_PATH descriptor; -ENOENT when the image has no such thing; -ENOTSUP for a squashfs
 * file, whose things are no files; -ELOOP.
 */
int rootfs_lookup(const struct plan *p, const char *path, struct mlr_error *err);

/*
 * Open a regular file found so for reading. Out of a squashfs file, which is asked for it
 * (squashfs/looker.h), a copy in memory; of a large ELF file only what describes it is in that, as
 * libelf asks for it, and zeros elsewhere, for a library of 100 MB takes a second to decompress
 * (LOOK_ABOUT).
 *
 * Returns an O_RDONLY descriptor; -ENOENT, also for what is no regular file; -ELOOP; -EACCES;
 * -EFBIG for more than 128 MiB in a squashfs file; -ENOTSUP for a squashfs file where mlrun was
 * built without libsquashfuse; -EPROTO for one that is none.
 */
int rootfs_open(const struct plan *p, const char *path);

/* Add the names in a directory, in no order, without "." and "..". Returns 0, or as above,
 * -ENOTDIR. */
int rootfs_list(const struct plan *p, const char *path, struct strv *ret);

/*
 * Is there a regular file, found so? Returns 0, or as rootfs_open(). Of a squashfs file nothing is
 * decompressed for it.
 */
int rootfs_has(const struct plan *p, const char *path);

/* Say that rootfs_open() or rootfs_list() will be called, perhaps: a squashfs file is looked into
 * beside what the caller does until then. */
void rootfs_expect_open(const struct plan *p, const char *path);
void rootfs_expect_list(const struct plan *p, const char *path);

/* Nothing more will be looked at: what had been started for it ends. */
void rootfs_look_done(void);

/* The text of a regular file found so, of at most max bytes, to free(). Returns as rootfs_open(),
 * -EFBIG. */
int rootfs_read(
	const struct plan *p, const char *path, size_t max, char **ret, struct mlr_error *err);

/*
 * What --explain tells of a path (plan/explain.h): nothing changes and nothing is mounted.
 *
 *   follow_last  follow a link at its end
 *   ret          zeroed; stays PLAN_THERE_UNKNOWN where this user may not look, and for a squashfs
 * file that is none or that mlrun cannot read
 */
void rootfs_look(const struct plan *p, const char *path, int follow_last, struct plan_seen *ret);

#endif
