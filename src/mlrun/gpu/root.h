/* Reads the files of a machine below its root. Links are followed inside the root. */
#pragma once

#include "gpu/machine.h"

struct gpu_dir {
	int fd;         /* the root, O_PATH */
	int is_machine; /* the root is "/", not a fake tree */
};

#define GPU_DIR_INIT  \
	{             \
		-1, 0 \
	}

/* Returns 0 or -errno. gpu_dir_close() closes. */
int gpu_dir_open(const char *root, struct gpu_dir *ret);
void gpu_dir_close(struct gpu_dir *d);

/* The same descriptor, or -errno, if it is one of a regular file; else -ENODEV, and closed. */
int gpu_root_regular(int file);

/* An O_RDONLY descriptor of a regular file, or -errno. */
int gpu_dir_open_file(const struct gpu_dir *d, const char *path);
/* Resolve the path of a file opened by gpu_dir_open_file(), below the root. To free(); NULL:
 * unknown. */
char *gpu_dir_path(const struct gpu_dir *d, int fd);
/* Read a file's text, at most 64 KiB (/proc's files have no size). To free(); NULL: unreadable. */
char *gpu_dir_read(const struct gpu_dir *d, const char *path);
/* Resolve a path, below the root. To free(); NULL: missing. st may be NULL. */
char *gpu_dir_resolve(const struct gpu_dir *d, const char *path, struct stat *st);
/* Add the names in a directory, sorted bytewise, without "." and "..". Returns 0 or -errno. */
int gpu_dir_list(const struct gpu_dir *d, const char *path, struct strv *ret);
/* A link's text, to free(); NULL: not a link. */
char *gpu_dir_readlink(const struct gpu_dir *d, const char *path);

/*
 * Read a node's numbers, owner and mode, and test by access(2) whether the caller could open it for
 * reading and writing. access(2) respects the job's device cgroup and does not wake a GPU.
 *
 * Returns 0, -ENOENT, or -ENODEV for other files than character devices; below a fake root a
 * regular file counts as one.
 */
int gpu_dir_node(const struct gpu_dir *d, const char *path, struct gpu_node *ret);

/* Like gpu_dir_node(), for the access(2) mode how. */
int gpu_dir_node_for(const struct gpu_dir *d, const char *path, int how, struct gpu_node *ret);
