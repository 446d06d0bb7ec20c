/* Puts the machine's MPI into a container in place of the image's: --mpi=host. */
#pragma once

#include "base/config.h"
#include "gpu/gpu.h"
#include "mpi/place.h"
#include "plan/plan.h"

/* The directory for the machine's libraries, created in memory for each container. */
#define MPI_HOST_DIR "/usr/local/mlrun/mpi"

/* How near the machine's MPI must be to the image's. Always: the family and the SONAME's number. */
enum mpi_host_level {
	MPI_HOST_UNSET,
	MPI_HOST_MAJOR,  /* nothing more */
	MPI_HOST_FULL,   /* the second number is not smaller than the image's */
	MPI_HOST_STRICT, /* the second numbers are equal */
};

struct mpi_host_request {
	enum mpi_host_level level;   /* UNSET: by [mpi] compatibility, else MAJOR */
	const struct config *config; /* for [mpi]; may be NULL */
	char *const *env;            /* as environ(7): PATH, LD_LIBRARY_PATH */
	const struct gpu_image *image;
	int is_wish; /* the image asks: a machine without MPI is no error */
};

/* The level that a word names: "major", "full", "strict"; MPI_HOST_UNSET for others. */
enum mpi_host_level mpi_host_level_read(const char *word);

/*
 * Add the machine's MPI: its libraries, those that they need and the image lacks or has older, its
 * modules and data, at the machine's own paths. The image's copies of its libraries are covered.
 * Call it after the environment is planned and before gpu_link(). Remarks say what comes from where
 * and what it replaces.
 *
 * Returns 0; -ENOENT: the machine has no MPI; -ENOTSUP: the image's is of another ABI, nearer than
 * the level allows, or its C library is too old or not glibc.
 */
int mpi_host_plan(const struct mpi_host_request *q, struct plan *p, struct mlr_error *err);
