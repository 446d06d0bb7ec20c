/* Checks whether what is to be fetched fits, before fetching it. For this room's other files. */
#pragma once

#include "store/store.h"

/* Compute the bytes that the caller may still use, by the file system's free space (statvfs(3)) and
 * the quotas of user and group (quotactl(2)), whichever is less. */
struct space_room {
	uint64_t bytes, inodes;
	const char *bytes_by, *inodes_by; /* "file system", "quota of user", "quota of group" */
};

/* Less is worth a word: an image for machine learning takes more, and a Python base image has
 * 10,000 files. */
#define SPACE_FEW_BYTES  1000000000ull
#define SPACE_FEW_INODES 20000

/* Ignores quotas that the kernel does not know (NFS, Lustre). Returns 0 or -errno. */
int space_room(int fd, struct space_room *ret, struct mlr_error *err);

/*
 * Check the room for a pull.
 *
 *   compressed  bytes of the layers to fetch
 *   times       how many times as much is comfortable: 3 for unpacked trees
 *   files       whether it becomes files, or one squashfs file
 *   notice      called if the room may not suffice; may be NULL
 *
 * Returns 0, or -ENOSPC (-EDQUOT for a quota) if not even the compressed bytes fit.
 */
int space_check(struct store *st, uint64_t compressed, unsigned times, int files,
	void (*notice)(void *ctx, const char *words), void *ctx, struct mlr_error *err);
