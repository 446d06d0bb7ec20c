/*
 * Paths that cannot leave a directory, for kernels without openat2(2) (before Linux 5.6) and
 * sandboxes that refuse it: one component after the other, each opened without following links.
 */
#ifndef MLR_BASE_WALK_H
#define MLR_BASE_WALK_H

enum walk_how {
	WALK_IN_ROOT, /* links are followed, with the directory as "/" */
	WALK_BENEATH, /* a link is -ELOOP, ".." out of the directory and a leading '/' are -EXDEV */
};

/*
 * As file_open_in_root() or file_open_beneath(), which call it. Nothing is created. Links of
 * procfs's kind, which lead to where no path does, are -ELOOP.
 *
 * Returns a descriptor or -errno.
 */
int walk_open(int dirfd, const char *path, int flags, enum walk_how how);

#endif
