/* Collects the machine's MPI libraries, and what they need that an image lacks. */
#pragma once

#include "mpi/place.h"

enum mpi_library_reason {
	MPI_LIBRARY_PART,  /* MPI's own or its network's: always the machine's */
	MPI_LIBRARY_LACKS, /* the image does not have it */
	MPI_LIBRARY_NEWER, /* the image's file name has a smaller version */
};

struct mpi_library {
	char *name;               /* that others need: "libmpi.so.40" */
	char *path;               /* on the machine, links resolved */
	struct gpu_version glibc; /* what it needs of glibc; zero: nothing */
	enum mpi_library_reason reason;
};

struct mpi_library_set {
	struct mpi_library *v; /* in the order of discovery */
	size_t n;
	struct strv modules; /* directories of the machine with libraries that MPI loads itself */
	struct strv data;    /* its other files and directories */
	struct mpi_library neediest; /* of the modules: the one that needs the newest glibc */
};

void mpi_library_set_done(struct mpi_library_set *s);

/*
 * Collect the libraries of an MPI implementation: the main one, its siblings for Fortran and so on,
 * what they need, and the modules (Open MPI's components, PMIx's, UCX's, libfabric's and
 * libibverbs' providers).
 *
 *   host   the machine, below d
 *   at     its implementation
 *   usual  directories of the image that its linker may not know
 *   files  if not empty, only these libraries and what they need, no siblings
 *
 * Returns 0, or -errno if the main library cannot be read.
 */
int mpi_library_collect(struct mpi_tree *host, const struct gpu_dir *d, struct mpi_tree *image,
	const struct strv *usual, const struct mpi_place *at, const struct strv *files,
	struct mpi_library_set *ret, struct mlr_error *err);
