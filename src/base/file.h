/*
 * Files: whole reads and writes, atomic replacement, and paths that cannot leave a directory.
 * Every descriptor made here is close-on-exec.
 */
#ifndef MLR_BASE_FILE_H
#define MLR_BASE_FILE_H

#include "base/error.h"

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * openat2(2) with the path resolved beneath dirfd as if dirfd were the root directory:
 * "..", absolute names and symlinks cannot leave it, magic links are refused.
 *
 *   flags  open(2)'s; O_CLOEXEC is added
 *
 * Returns the descriptor or -errno. Where there is no openat2(2), before Linux 5.6, base/walk.h
 * does the same; it creates nothing.
 */
int file_open_in_root(int dirfd, const char *path, int flags, mode_t mode);

/*
 * openat2(2) beneath dirfd without following any symlink: a path that holds one is -ELOOP, one that
 * leads out by ".." or a leading '/' is -EXDEV. Else as above; nothing is created.
 */
int file_open_beneath(int dirfd, const char *path, int flags);

/*
 * Open a regular file or directory to be read, even one that its owner may not read (/etc/shadow of
 * mode 0000): it is given the bits that it lacks where it belongs to this user. A file has them for
 * the moment of opening, a directory until file_take_back(), as what is in it is opened by name.
 *
 * Others may change what is there meanwhile: mode and descriptor are those of one inode, which st
 * was taken of.
 *
 *   name  in dir; a link is not followed
 *   lent  set to whether file_take_back() has something to do
 *
 * Returns the descriptor or -errno, -ESTALE for another thing than st tells of.
 */
int file_open_readable(int dir, const char *name, const struct stat *st, int *lent);

/* Give a directory of file_open_readable() the mode again that st tells of. */
void file_take_back(int fd, const struct stat *st);

/*
 * opendir(3) of a directory beneath another; "." lists dirfd itself, from its beginning.
 *
 *   flags  0, or O_NOFOLLOW
 *
 * Returns a list for closedir(3), or NULL with errno set.
 */
DIR *file_open_dir(int dirfd, const char *path, int flags);

static inline void file_close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}
#define auto_dir __attribute__((cleanup(file_close_dir)))

/*
 * Read a whole file of at most max bytes, with a NUL after the last (not counted in *len).
 *
 *   dirfd  as openat(2)'s; AT_FDCWD allowed
 *   len    may be NULL
 *
 * Returns 0 and a buffer to free(), or -EFBIG when it is larger, or the errno of open or read.
 */
int file_read(
	int dirfd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err);

/* write(2) until all is written. Returns 0 or -errno. */
int file_write_all(int fd, const void *buf, size_t len);

/* Up to len bytes, fewer only at end of file. Returns the count or -errno. */
ssize_t file_read_full(int fd, void *buf, size_t len);

/*
 * Replace (or make) a file as one act: temporary name in the same directory, fsync, rename,
 * fsync of the directory. After a failure, a kill or a power cut the old or the new file is there.
 */
int file_replace(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
	struct mlr_error *err);

/*
 * Let what is in a file that file_replace() is going to replace be "PATH~", too, from now on; what
 * was that is gone. Where the file system has no second names (link(2)) it is copied.
 *
 *   max   bytes that are copied at most
 *
 * Returns 1, 0 when there is no file or it is PATH~ already, -EFBIG, or the errno of link, rename,
 * open, read or write. PATH is what it was in any case, and so is PATH~ after a failure.
 */
int file_keep(const char *path, size_t max, struct mlr_error *err);

/*
 * Write the output that a user named: file_replace() of a regular file, of one that is not there
 * yet, and of what a link leads to; anything else, a device or a pipe, is written to as it is,
 * since replaced by a file it would be lost to all. -EACCES for another user's link
 * (base/follow.h).
 */
int file_put(const char *path, const void *buf, size_t len, mode_t mode, struct mlr_error *err);

/*
 * Do two paths name one file, by whatever way they lead to it? One that is not there yet is known
 * by its directory and its name.
 */
int file_is_same(const char *a, const char *b);

/*
 * Remove what file_replace() of this path left beside it where it was killed: temporary names that
 * nobody has open for writing, or, where the file system can't tell, to which nobody wrote for an
 * hour. What can't be removed stays.
 *
 *   at  as openat(2)'s directory
 */
void file_replace_sweep(int at, const char *path);

/* mkdir -p below dirfd; what exists must be a directory. Returns 0 or -errno. */
int file_mkdir_p(int dirfd, const char *path, mode_t mode, struct mlr_error *err);

/*
 * Remove what path names, a directory with everything below it, never following a symlink and
 * making unreadable directories of ours readable first. A missing path is success.
 */
int file_remove_tree(int dirfd, const char *path, struct mlr_error *err);

/* fsync a directory by name, so that renames in it survive a power cut. Returns 0 or -errno. */
int file_sync_dir(int dirfd, const char *path);

#endif
