/*
 * What a fake root knows of files: with the file itself where that has extended attributes
 * (base/file_owner.h), else by inode (base/owners_file.h). For runtime/fakeroot*.c.
 */
#pragma once

#include "base/base.h"
#include "base/file_owner.h"

/*
 * Before the first call.
 *
 *   owners  the container's base/owners_file.h, open; -1: there is none
 */
void fakeroot_records_open(int owners);

/* Has the file surely no record? fd -1: by a name of asked_name(). Most files have no attributes at
 * all, and one system call tells that. */
int fakeroot_records_lack(const char *name, int follow, int fd);

/* Has it surely no recorded mode? fd -1: by its name, whose link is followed. */
int fakeroot_records_lack_mode(const char *name, int fd);

/* Has the file any extended attributes? fd may be O_PATH. */
int fakeroot_records_has_attributes(int fd);

/* Returns whether there is a record; without one, root's. fd may be O_PATH. */
int fakeroot_records_find(int fd, const struct stat *st, struct file_owner *ret);

void fakeroot_records_set(int fd, const struct stat *st, const struct file_owner *o);

/* Is the file one of this process's own? Through /proc a path may lead there, out of the
 * container. */
int fakeroot_records_refuse(const struct stat *st);
