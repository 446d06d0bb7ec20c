/* Finds libraries in an image or on the machine, as the dynamic linker there would (ld.so(8)). */
#ifndef MLR_MPI_TREE_H
#define MLR_MPI_TREE_H

#include "base/strv.h"
#include "gpu/elf.h"
#include "gpu/gpu.h"
#include "gpu/root.h"
#include "gpu/version.h"

struct mpi_tree_dir {
	char *path;
	struct strv names; /* sorted */
};

struct mpi_tree {
	const struct gpu_image *files;
	struct strv dirs; /* where the linker looks, in order */
	struct mpi_tree_dir *known;
	size_t n_known;
};

#define MPI_TREE_INIT                     \
	{                                 \
		NULL, STRV_INIT, NULL, 0, \
	}

/* The machine's files below a root as a tree has them. d must outlive ret. */
void mpi_tree_of(struct gpu_dir *d, struct gpu_image *ret);

/* Begin with LD_LIBRARY_PATH, the directories in the linker's cache and the usual ones.
 * library_path may be NULL; files must outlive ret. */
void mpi_tree_begin(struct mpi_tree *ret, const struct gpu_image *files, const char *library_path);
void mpi_tree_done(struct mpi_tree *t);

/* A directory's names, sorted; an empty list if there is none. */
const struct strv *mpi_tree_list(struct mpi_tree *t, const char *dir);
int mpi_tree_has(struct mpi_tree *t, const char *dir, const char *name);

/*
 * Find a library by name.
 *
 *   first  directories to search before; NULL: none
 *
 * Returns its path, to free(), or NULL.
 */
char *mpi_tree_find(struct mpi_tree *t, const struct strv *first, const char *name);

/* The version in a library's file name, of "libmpi.so.40.30.4" beside "libmpi.so.40"; only 40 if
 * the directory has no such file. */
void mpi_tree_version(struct mpi_tree *t, const char *path, struct gpu_version *ret);

/* Read a library of this machine's kind. Returns 0 or -errno. */
int mpi_tree_elf(struct mpi_tree *t, const char *path, struct gpu_elf *ret);

#endif
