/* Device nodes: what they are, whose they are, and how one comes to use them. */
#ifndef MLR_GPU_NODE_H
#define MLR_GPU_NODE_H

#include "gpu/machine.h"
#include "gpu/root.h"

#define GPU_DRM_MAJOR 226 /* of /dev/dri (Linux, Documentation/admin-guide/devices.txt) */

/* The number behind a word, 12 of "gi12" and "gi"; -1 for other names. */
long gpu_number_behind(const char *name, const char *word);

/* A node that should be there. */
struct gpu_node_want {
	const char *path;
	long major, minor; /* -1: any number */
	int how;           /* access(2)'s modes that users of it need: R_OK, R_OK | W_OK */
};

/*
 * gpu_dir_node() of it, with the number checked: one of another device has error ENXIO and its name
 * is added to warnings. In a made-up tree any device may stand for it, and a regular file is given
 * the number that is wanted.
 *
 * Returns 0, or -errno as gpu_dir_node() and an empty ret.
 */
int gpu_node_look(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node *ret,
	struct strv *warnings);

/* The same, and put into a list; what is not there is left out. */
void gpu_node_find(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node **v,
	size_t *n, struct strv *warnings);

/* Fill in g->drm: /dev/dri/card1 and renderD129 of what a device's directory in /sys has in
 * drm/. */
void gpu_node_find_drm(
	const struct gpu_dir *d, const char *device_dir, struct gpu *g, struct strv *warnings);

/*
 * Who may open a node, in words for a table, to free(): "you", "the job's cgroup denies it", "group
 * video", "nobody but root", "nobody: it is not there".
 */
char *gpu_node_users(const struct gpu_node *n);

/*
 * Why the caller cannot open it and what to do, to free(): "'/dev/nvidia0' is for group 'video'
 * alone (mode 0660); an administrator adds you to it: usermod -aG video alice". NULL when he can.
 */
char *gpu_node_why(const struct gpu_node *n);

#endif
