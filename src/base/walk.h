/*
 * Resolves paths that cannot leave a directory, for kernels without openat2(2) (before Linux 5.6)
 * and sandboxes that refuse it: opens one component after another without following links.
 */
#pragma once

enum walk_how {
	WALK_IN_ROOT, /* follow links, with the directory as "/" */
	WALK_BENEATH, /* a link is -ELOOP; ".." out of the directory and a leading '/' are -EXDEV */
};

/*
 * For file_open_in_root() and file_open_beneath(). Creates nothing. procfs's magic links are
 * -ELOOP.
 *
 * Returns a descriptor or -errno.
 */
int walk_open(int dirfd, const char *path, int flags, enum walk_how how);
