/*
 * Writes tar members beneath a tree's descriptor: one function a kind of member. The parent may be
 * reached through the tree's own symlinks; the last name is never followed, and what stands there
 * makes way, except that a directory stays when a directory comes.
 */
#ifndef MLR_LAYER_WRITER_H
#define MLR_LAYER_WRITER_H

#include "base/error.h"
#include "layer/dirs.h"
#include "layer/recorder.h"
#include "layer/tar.h"

#include <limits.h>
#include <sys/types.h>
#include <time.h>

struct layer_writer {
	int root; /* borrowed */
	struct layer_recorder
		*recorder; /* borrowed, may be NULL: told of files that are replaced */
	struct layer_dirs dirs;

	/* The parent of the member before, kept because the next one often has the same. */
	char parent[PATH_MAX];
	char parent_real[PATH_MAX]; /* the same without symlinks */
	int parent_fd;
	int parent_known;    /* 0: nothing is kept, or what it was reached through has changed */
	int parent_hides;    /* it is in dirs.hiding */
	mode_t parent_gives; /* bits that a new file there has got when they were asked for */
	int made_way;        /* something was removed: dirs.implicit may name what is no more */
};

void layer_writer_init(struct layer_writer *w, int root, size_t dir_memory);
void layer_writer_done(struct layer_writer *w);

/* A new regular file: returns its descriptor to write to, then to be ended by
 * layer_writer_file_end(), which sets xattrs, mode and time but does not close. */
int layer_writer_file(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);
int layer_writer_file_end(
	struct layer_writer *w, int fd, const struct layer_member *m, struct mlr_error *err);

/* The path, without symlinks, of a file just made. Returns 0, -ENAMETOOLONG. */
int layer_writer_real_path(
	const struct layer_writer *w, const struct layer_member *m, char real[PATH_MAX]);

/* A directory, xattrs included. Its mode and time come at the finish. */
int layer_writer_dir(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);

int layer_writer_symlink(
	struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);
int layer_writer_fifo(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);

/* A second name for a file of this layer. */
int layer_writer_link(struct layer_writer *w, const struct layer_member *m, struct mlr_error *err);

/* Hide what the layers below have at path. */
int layer_writer_whiteout(struct layer_writer *w, const char *path, struct mlr_error *err);

/* Hide all that the layers below have in the directory at path. */
int layer_writer_opaque(struct layer_writer *w, const char *path, struct mlr_error *err);

/* After the last member: modes and times of directories. */
int layer_writer_finish(struct layer_writer *w, struct mlr_error *err);

#endif
