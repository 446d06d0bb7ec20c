/*
 * Files: whole reads and writes, atomic replacement, and paths that cannot leave a directory.
 * Every descriptor made here is close-on-exec.
 */
#pragma once

#include "base/error.h"
#include "base/strv.h"

#include <dirent.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct file_owner;

/*
 * openat2(2) with the path resolved as if dirfd were the root directory: "..", absolute paths and
 * symlinks cannot leave it, and magic links are refused.
 *
 *   flags  open(2)'s; O_CLOEXEC is added
 *
 * Returns the descriptor or -errno. Without openat2(2), before Linux 5.6, base/walk.h does the
 * same, but creates nothing.
 */
int file_open_in_root(int dirfd, const char *path, int flags, mode_t mode);

/*
 * openat2(2) beneath dirfd without following symlinks. A symlink in the path gives -ELOOP; a ".."
 * that leads outside or a leading '/' gives -EXDEV. Otherwise as above; creates nothing.
 */
int file_open_beneath(int dirfd, const char *path, int flags);

/*
 * Open a regular file or directory for reading, even if its mode forbids that to its owner
 * (/etc/shadow of mode 0000): if it belongs to this user, it gets the missing permissions. A file
 * has them only while it is opened. A directory keeps them until file_take_back(), since its
 * entries are opened by name.
 *
 * Safe against concurrent changes: mode and descriptor belong to the inode that st describes.
 *
 *   name   in dir; a link is not followed
 *   lent   set to whether file_take_back() has something to do
 *   owner  as file_owner_get() finds it, which needs the same permissions; may be NULL
 *
 * Returns the descriptor or -errno; -ESTALE if it is not the inode that st describes.
 */
int file_open_readable(
	int dir, const char *name, const struct stat *st, int *lent, struct file_owner *owner);

/* The same for a file that is open as O_PATH. */
int file_reopen_readable(int place, const struct stat *st, int *lent, struct file_owner *owner);

/* The path of an open file without links, as this process sees it: to free(), or NULL with errno.
 */
char *file_fd_path(int fd);

/* The same below a directory that is open, too: "" is the directory itself. NULL if it is not
 * below. */
char *file_fd_below(int top, int fd);

/* Restore the mode in st of a directory from file_open_readable(). */
void file_take_back(int fd, const struct stat *st);

/*
 * opendir(3) of a directory beneath another; "." lists dirfd itself, from the start.
 *
 *   flags  0, or O_NOFOLLOW
 *
 * Returns a list for closedir(3), or NULL with errno set.
 */
DIR *file_open_dir(int dirfd, const char *path, int flags);

/* The next entry of such a list but "." and ".."; NULL at its end, after an error, and for a list
 * that is NULL: for (struct dirent *e; (e = file_next(d));) */
struct dirent *file_next(DIR *d);

/*
 * Add the names in a directory but "." and "..", sorted by their bytes, to an empty list. Arguments
 * are file_open_dir()'s.
 *
 * Returns 0, or -errno with what was read until then.
 */
int file_list(int dirfd, const char *path, int flags, struct strv *ret);

static inline void file_close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}
#define auto_dir __attribute__((cleanup(file_close_dir)))

/*
 * Read a whole file of at most max bytes and append a NUL (not counted in *len).
 *
 *   dirfd  as openat(2)'s; AT_FDCWD allowed
 *   len    may be NULL
 *
 * Returns 0 and a buffer to free(), or -EFBIG if it is larger, or the errno of open or read.
 */
int file_read(
	int dirfd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err);

/* The same for a path that a stranger names: anything but a regular file is -EINVAL, and a fifo is
 * not waited for. */
int file_read_regular(
	int dirfd, const char *path, size_t max, char **ret, size_t *len, struct mlr_error *err);

/* write(2) until all bytes are written. Returns 0 or -errno. */
int file_write_all(int fd, const void *buf, size_t len);

/* Open a file in memory, of mode 0600, that has this text and is read from its beginning. Returns
 * it, or -errno. */
int file_of_text(const char *text);

/* Read len bytes, fewer only at end of file. Returns the count or -errno. */
ssize_t file_read_full(int fd, void *buf, size_t len);

/*
 * Replace or make a file atomically: temporary name in the same directory, fsync, rename, fsync of
 * the directory. After a failure, a kill or a power cut, either the old or the new file is there.
 */
int file_replace(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
	struct mlr_error *err);
/* The same with strings that each end with a NUL, as /proc/PID/environ has them. */
int file_replace_list(
	int dirfd, const char *path, const struct strv *l, mode_t mode, struct mlr_error *err);

/*
 * The same for a file that must not be there yet, by link(2): one of several processes makes it.
 * Returns 0, or also -EEXIST.
 */
int file_create(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
	struct mlr_error *err);

/* A new name beside a path, to free(). file_replace_sweep() takes a file of this name for a
 * leftover unless a process has it open for writing. */
char *file_temp_name(const char *path);

/*
 * Keep a file as "PATH~" before file_replace() replaces it, by a hard link or, if the file system
 * has none, a copy. Replaces an older PATH~.
 *
 *   max   bytes to copy at most
 *
 * Returns 1; 0 if there is no file or it is the same as PATH~; -EFBIG; or the errno of link,
 * rename, open, read or write. PATH never changes; PATH~ does not change on failure.
 */
int file_keep(const char *path, size_t max, struct mlr_error *err);

/*
 * Write an output file that the user named. A regular file, a new one and the target of a link are
 * written with file_replace(). Anything else, a device or a pipe, is written to directly, as a
 * replacement would remove it for everyone. -EACCES for another user's link (base/follow.h).
 */
int file_put(const char *path, const void *buf, size_t len, mode_t mode, struct mlr_error *err);

/* Do two statuses describe the same file? */
static inline int file_is_one(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/*
 * Do two paths lead to the same file? A file that does not exist yet is identified by its directory
 * and name.
 */
int file_is_same(const char *a, const char *b);

/*
 * Remove the temporary files that killed calls of file_replace() for this path left: those that no
 * process has open for writing or, if the file system cannot say, not written for an hour. Ignores
 * those that it cannot remove.
 *
 *   at  as openat(2)'s directory
 */
void file_replace_sweep(int at, const char *path);

/* mkdir -p below dirfd; what exists must be a directory. Returns 0 or -errno. */
int file_mkdir_p(int dirfd, const char *path, mode_t mode, struct mlr_error *err);

/*
 * Remove path and, if it is a directory, everything below it. Never follows symlinks, and makes our
 * unreadable directories readable first. A missing path is success.
 */
int file_remove_tree(int dirfd, const char *path, struct mlr_error *err);

/* fsync a directory by path, so that renames in it survive a power cut. Returns 0 or -errno. */
int file_sync_dir(int dirfd, const char *path);
