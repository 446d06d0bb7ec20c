/*
 * Writes tar members beneath a tree's descriptor. The parent may be
 * reached through the tree's own symlinks. The last name is never followed; what exists there is
 * removed, except that a directory stays if the member is a directory.
 */
#pragma once

#include "layer/names.h"
#include "layer/recorder.h"

/*
 * A layer's directories, remembered until its end: making a file in a directory changes the
 * directory's time, and nothing can be made in a read-only one, so modes and times are set last.
 */
struct layer_dirs {
	struct layer_names *t; /* of directories only */
	struct layer_name *top;
	size_t memory;
	struct strv open; /* layer_dirs_apply()'s: struct layer_result's */
};

struct layer_writer {
	int root; /* borrowed */
	struct layer_recorder
		*recorder; /* borrowed, may be NULL; records files before they are replaced */
	struct layer_dirs dirs;

	/* The parent of the last member, kept since the next member often has the same. */
	char parent[PATH_MAX];
	char parent_real[PATH_MAX]; /* likewise, without symlinks */
	int parent_fd;
	int parent_known;    /* 0: none is kept, or a component of its path has changed */
	mode_t parent_gives; /* bits that new files there get if requested */

	struct strv owners; /* struct layer_result's, of owners_size bytes */
	size_t owners_size;
};

void layer_writer_init(struct layer_writer *w, int root, size_t dir_memory);
void layer_writer_done(struct layer_writer *w);

/* Make a regular file. Returns a descriptor to write to; then call layer_writer_file_end(), which
 * sets xattrs, mode and time, and close it. */
int layer_writer_file(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);
int layer_writer_file_end(
	struct layer_writer *w, int fd, const struct layer_member *m, struct mlr_error *err);

/* The path of the new file, without symlinks. Returns 0 or -ENAMETOOLONG. */
int layer_writer_real_path(
	const struct layer_writer *w, const struct layer_member *m, char real[PATH_MAX]);

/* Make a name of another kind, or hide one. layer_writer_finish() sets modes and times of
 * directories. A hard link's target is a file of this layer. */
int layer_writer_name(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);

/* Set modes and times of directories, after the last member. */
int layer_writer_finish(struct layer_writer *w, struct mlr_error *err);

/* Find a directory by its path without symlinks ("" is the top), or remember a new one. An implied
 * one is used by the layer without being named. Returns 0, -EFBIG, -ENOMEM. */
int layer_dirs_get(
	struct layer_dirs *d, const char *real, struct layer_name **ret, struct mlr_error *err);

/* The directories used implicitly and those with whiteouts, sorted; "." is the top. */
void layer_dirs_list(const struct layer_dirs *d, struct strv *implicit, struct strv *hiding);
