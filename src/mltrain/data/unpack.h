/*
 * Archives of data sets, of which nothing but the files that are known by name comes out.
 */
#ifndef MLT_DATA_UNPACK_H
#define MLT_DATA_UNPACK_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_FILES_MAX 8
#define ARCHIVE_ENTRY_MAX ((uint64_t)512 << 20) /* bytes of a file in it */
#define ARCHIVE_SKIP_MAX  ((uint64_t)1 << 30)   /* bytes of what is passed over, all together */

struct archive_files {
	const char *archive;                  /* the archive's own name */
	const char *dir;                      /* where in it they lie */
	const char *files[ARCHIVE_FILES_MAX]; /* NULL after the last */
};

extern const struct archive_files archive_cifar_10, archive_cifar_100;

/* The contents of an archive of that name, or NULL. */
const struct archive_files *archive_files_find(const char *archive);

/*
 * Unpack a tar, compressed by gzip or not, into a directory: its regular files dir/NAME of the
 * names that are known, and no other entry, whatever its path says. They appear all together at the
 * end, in place of what had their names.
 *
 *   dirfd, name   the archive; its files come into dirfd
 *
 * Returns 0, -EPROTO for a damaged archive, one that lacks a file or has it as a link, -EFBIG
 * above the ceilings, -ENOSPC and kin. After a failure the directory is as it was.
 */
int archive_unpack(
	int dirfd, const char *name, const struct archive_files *known, struct mlr_error *err);

#endif
