/* Checks device nodes, and explains who may open them and what to do. */
#pragma once

#include "gpu/root.h"

#define GPU_DRM_MAJOR 226 /* of /dev/dri (Linux, Documentation/admin-guide/devices.txt) */

/* The number after a word: 12 for "gi12" and "gi"; -1 for other names. */
long gpu_number_behind(const char *name, const char *word);

/* An expected node. */
struct gpu_node_want {
	const char *path;
	long major, minor; /* -1: any number */
	int how;           /* access(2) mode that users need: R_OK, R_OK | W_OK */
};

/*
 * Read a node with gpu_dir_node() and check its number. A node of another device gets the error
 * ENXIO and a line in warnings. In a fake tree any device may stand for the node; a regular file
 * gets the expected number.
 *
 * Returns 0, or -errno like gpu_dir_node() and an empty ret.
 */
int gpu_node_look(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node *ret,
	struct strv *warnings);

/* Like gpu_node_look(), but append the node to a list, unless it is missing. */
void gpu_node_find(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node **v,
	size_t *n, struct strv *warnings);

/* Fill in g->drm: /dev/dri/card1 and renderD129, which drm/ in the device's /sys directory
 * lists. */
void gpu_node_find_drm(
	const struct gpu_dir *d, const char *device_dir, struct gpu *g, struct strv *warnings);

/*
 * Who may open a node, as a table prints it: "you", "the job's cgroup denies it", "group video",
 * "only root", "nobody: missing". To free().
 */
char *gpu_node_users(const struct gpu_node *n);

/*
 * Explain why the caller cannot open a node and what to do: "only group 'video' may open
 * '/dev/nvidia0' (mode 0660); as root, usermod -aG video alice". To free(); NULL when it can.
 */
char *gpu_node_why(const struct gpu_node *n);
