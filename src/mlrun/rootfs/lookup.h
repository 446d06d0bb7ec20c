/* Looks into an image's root without mounting it. */
#pragma once

#include "plan/explain.h"

/*
 * Open a file as the overlay of plan->lowers would show it: whiteouts and opaque directories hide
 * what is below them, and links are followed inside the image.
 *
 *   path  absolute
 *
 * Returns an O_PATH descriptor; -ENOENT if the image has no such file; -ENOTSUP for a squashfs
 * file, whose contents cannot be opened this way; -ELOOP.
 */
int rootfs_lookup(const struct plan *p, const char *path, struct mlr_error *err);

/*
 * Look up a regular file in the same way and open it for reading. From a squashfs file, this gives
 * a copy in memory (squashfs/looker.h). Of a large ELF file the copy holds only the parts that
 * gpu/elf.h reads to describe it, and zeros elsewhere (LOOK_ABOUT), because a library of 100 MB
 * takes a second to decompress.
 *
 * Returns an O_RDONLY descriptor; -ENOENT, also if it is not a regular file; -ELOOP; -EACCES;
 * -EFBIG for more than 128 MiB in a squashfs file; -ENOTSUP for a squashfs file if mlrun was built
 * without libsquashfuse; -EPROTO if the file is not a squashfs image.
 */
int rootfs_open(const struct plan *p, const char *path);

/* Append the names in a directory, unsorted, without "." and "..". Returns 0, or an error as above,
 * or -ENOTDIR. */
int rootfs_list(const struct plan *p, const char *path, struct strv *ret);

/*
 * Is there a regular file at a path? Returns 0, or an error as rootfs_open(). Decompresses nothing
 * in a squashfs file.
 */
int rootfs_has(const struct plan *p, const char *path);

/* Prefetch hints: rootfs_open() or rootfs_list() may be called soon. A squashfs file is then read
 * in the background. */
void rootfs_expect_open(const struct plan *p, const char *path);
void rootfs_expect_list(const struct plan *p, const char *path);

/* End the background look-ups; no more calls will follow. */
void rootfs_look_done(void);

/* Read a regular file of at most max bytes as text, to free(). Returns as rootfs_open(), or
 * -EFBIG. */
int rootfs_read(
	const struct plan *p, const char *path, size_t max, char **ret, struct mlr_error *err);

/*
 * Describe a path for --explain (plan/explain.h). Changes and mounts nothing.
 *
 *   follow_last  follow a link at its end
 *   ret          zeroed; stays PLAN_THERE_UNKNOWN if this user may not look, or if the squashfs
 * file is invalid or cannot be read by this mlrun
 */
void rootfs_look(const struct plan *p, const char *path, int follow_last, struct plan_seen *ret);
