/* Files of a machine, read below its root; links are followed inside it. */
#ifndef MLR_GPU_ROOT_H
#define MLR_GPU_ROOT_H

#include "base/strv.h"
#include "gpu/machine.h"

#include <stddef.h>
#include <sys/stat.h>

struct gpu_dir {
	int fd;         /* of the root, O_PATH */
	int is_machine; /* it is "/", where nodes are nodes */
};

#define GPU_DIR_INIT  \
	{             \
		-1, 0 \
	}

/* Returns 0 or -errno. gpu_dir_close() closes. */
int gpu_dir_open(const char *root, struct gpu_dir *ret);
void gpu_dir_close(struct gpu_dir *d);

/* An O_RDONLY descriptor of a regular file, or -errno. */
int gpu_dir_open_file(const struct gpu_dir *d, const char *path);
/* The path without links of what gpu_dir_open_file() opened, below the root, to free(); NULL:
 * nobody knows. */
char *gpu_dir_path(const struct gpu_dir *d, int fd);
/* Its text of at most 64 KiB (/proc's files have no size), to free(); NULL: it cannot be read. */
char *gpu_dir_read(const struct gpu_dir *d, const char *path);
/* The path without links, below the root, to free(); NULL: there is no such thing. st may be
 * NULL. */
char *gpu_dir_resolve(const struct gpu_dir *d, const char *path, struct stat *st);
/* Adds the names in a directory, sorted as bytes, without "." and "..". Returns 0 or -errno. */
int gpu_dir_list(const struct gpu_dir *d, const char *path, struct strv *ret);
/* A link's text, to free(); NULL: it is none. */
char *gpu_dir_readlink(const struct gpu_dir *d, const char *path);

/*
 * Look at a node: its numbers, owner and mode, and whether the caller could open it for reading and
 * writing, by access(2), which asks the job's device cgroup as well and does not wake a GPU.
 *
 * Returns 0, or -ENOENT; -ENODEV for what is no character device (below a root that is a tree a
 * regular file is taken for one).
 */
int gpu_dir_node(const struct gpu_dir *d, const char *path, struct gpu_node *ret);

/* The same of a node that is opened in another way: R_OK, access(2). */
int gpu_dir_node_for(const struct gpu_dir *d, const char *path, int how, struct gpu_node *ret);

#endif
