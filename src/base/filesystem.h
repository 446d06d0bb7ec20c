/*
 * File systems: their types, and what mlrun has to know about each. A new file system, and a quirk
 * of one, is a row of filesystem.c.
 */
#pragma once

#include <sys/statvfs.h>

enum filesystem_quirk {
	/* Servers keep the files, for many nodes: one large file is read faster than many small
	 * ones. */
	FILESYSTEM_SERVERS = 1,
	/* This machine's disks or memory keep the files, and keep the order of metadata in a crash:
	 * no other node reads what is not written back yet. */
	FILESYSTEM_LOCAL = 2,
	/* fsync(2) of a directory may write that alone, and not what was changed before it. */
	FILESYSTEM_SYNCS_ALONE = 4,
};

struct filesystem {
	unsigned long type; /* statfs(2)'s */
	const char *name;   /* "nfs"; NULL if it has no row */
	unsigned quirks;    /* enum filesystem_quirk; 0 if it has no row */
};

/* Abilities of a user on a file system, found by trial (runtime/probe.h), as servers, mount options
 * and kernels differ for one type. */
struct filesystem_probe {
	int whiteouts; /* character devices 0:0 can be made */
	int xattrs;    /* user.* extended attributes can be set */
	int hard_links;
	int overlay; /* an overlay of directories on it, mounted as exec does, shows what it should;
		      * -1 if unknown, as this user may not make user namespaces here */
	int upper;   /* an overlay's upper layer can be on it; -1 if unknown, likewise */
};

struct filesystem filesystem_of_type(unsigned long type);

/* Returns 0, or -errno: *ret then is of type 0. */
int filesystem_read(int fd, struct filesystem *ret);

#define FILESYSTEM_NO_SIZE (1ull << 62) /* bytes */

/* Ask for a file system's room as statvfs(2). One without a size of its own (ramfs, tmpfs with
 * size=0) has FILESYSTEM_NO_SIZE, all of it free. */
int filesystem_room(int fd, struct statvfs *ret);
