/* Unpacks archives of data sets: only the files that are known by name. */
#ifndef MLT_DATA_UNPACK_H
#define MLT_DATA_UNPACK_H

#include "base/base.h"

#define ARCHIVE_FILES_MAX 8
#define ARCHIVE_ENTRY_MAX ((uint64_t)512 << 20) /* bytes of a file in it */
#define ARCHIVE_SKIP_MAX  ((uint64_t)1 << 30)   /* bytes of what is passed over, all together */

struct archive_files {
	const char *archive;                  /* name of the archive */
	const char *dir;                      /* their directory in the archive */
	const char *files[ARCHIVE_FILES_MAX]; /* NULL after the last */
};

extern const struct archive_files archive_cifar_10, archive_cifar_100;

/* Find the contents of an archive by its name, or NULL. */
const struct archive_files *archive_files_find(const char *archive);

/*
 * Unpack the known regular files dir/NAME of a tar, compressed by gzip or not, and ignore all other
 * entries. They replace older files all together at the end.
 *
 *   dirfd, name   the archive; its files go into dirfd
 *
 * Returns 0, -EPROTO if the archive is damaged, lacks a file or has it as a link, -EFBIG above the
 * limits, -ENOSPC and kin. A failure leaves the directory unchanged.
 */
int archive_unpack(
	int dirfd, const char *name, const struct archive_files *known, struct mlr_error *err);

#endif
