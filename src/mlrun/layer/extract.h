/* Extracts an archive of the user's into a directory, as tar(1) does for an ordinary user: the
 * files are the caller's, modes and times the archive's, and devices are left out. A layer is
 * unpacked by layer/unpack.h instead. */
#pragma once

#include "base/base.h"

#include <archive.h>

/* A libarchive writer that makes files below the paths of its entries. No path with ".." or through
 * a symlink is written to; a file that is there is replaced when the new one is complete. Without
 * keep_modes files have no set-ID bits and obey the umask, as where others may enter they must. */
struct archive *layer_extract_new(int keep_modes);

/*
 * Extract a tar, perhaps compressed with gzip, bzip2, xz or zstd.
 *
 *   dir     the absolute path of a directory, without symlinks, that others cannot enter
 *   cancel  read atomically; not 0 stops the work with -ECANCELED. May be NULL
 *
 * Returns 0; -EPROTO for a damaged archive or a name that leads out of it; -ENOSPC and the like.
 */
int layer_extract(int fd, const char *dir, const int *cancel, struct mlr_error *err);
