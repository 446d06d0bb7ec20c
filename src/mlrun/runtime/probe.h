/*
 * What a file system lets an ordinary user do that a store of layer trees needs. Tried out, since
 * no name of a file system tells: servers, mount options and kernels differ.
 */
#ifndef MLR_RUNTIME_PROBE_H
#define MLR_RUNTIME_PROBE_H

#include "base/error.h"

struct runtime_probe {
	int whiteouts; /* character devices 0:0 can be made */
	int xattrs;    /* user.* extended attributes can be set */
	int hard_links;
	int overlay; /* an overlay of directories on it, mounted as exec does, shows what it should;
		      * -1: nobody knows, as this user may not have user namespaces here */
};

/*
 * Try in a directory, in which one of the name "probe.<16 hex>" is made and removed. Overlay is
 * mounted by a child process in namespaces of its own.
 *
 * Returns 0, or -errno when not even files can be made there.
 */
int runtime_probe(int dir_fd, struct runtime_probe *ret, struct mlr_error *err);

#endif
