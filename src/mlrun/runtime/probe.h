/*
 * What a file system lets an ordinary user do that a store of layer trees needs. Found by trial,
 * since servers, mount options and kernels differ for one file system type.
 */
#ifndef MLR_RUNTIME_PROBE_H
#define MLR_RUNTIME_PROBE_H

#include "base/error.h"

struct runtime_probe {
	int whiteouts; /* character devices 0:0 can be made */
	int xattrs;    /* user.* extended attributes can be set */
	int hard_links;
	int overlay; /* an overlay of directories on it, mounted as exec does, shows what it should;
		      * -1 if unknown, as this user may not make user namespaces here */
};

/*
 * Probe a directory, in a temporary subdirectory "probe.<16 hex>". A child process mounts the
 * overlay in its own namespaces.
 *
 * Returns 0, or -errno if not even files can be made there.
 */
int runtime_probe(int dir_fd, struct runtime_probe *ret, struct mlr_error *err);

#endif
