/* Tells MPI libraries by their names: two families, in which a program runs with each other's
 * library if its SONAME is the same. */
#ifndef MLR_MPI_FAMILY_H
#define MLR_MPI_FAMILY_H

#include "gpu/version.h"

enum mpi_family {
	MPI_NONE,
	MPI_OPEN,  /* Open MPI: libmpi.so.40 */
	MPI_MPICH, /* MPICH, Intel MPI, MVAPICH2, Cray MPICH: libmpi.so.12 (MPICH ABI initiative) */
};

/* "Open MPI", "MPICH or a relative of it". */
const char *mpi_family_name(enum mpi_family family);

/*
 * Is this the name of an MPI implementation's main library, "libmpi.so.40", "libmpich.so.12" or
 * Cray's "libmpi_gnu_91.so.12"?
 *
 *   ret  the version behind ".so.": 40, 12.2.2
 */
int mpi_family_is_main(const char *name, struct gpu_version *ret);

/*
 * The names under which MPICH's relatives have a library of the same ABI: "libmpi.so.12" and
 * "libmpich.so.12". NULL-terminated and with the name itself; NULL for other libraries.
 */
const char *const *mpi_family_aliases(const char *name);

/* Is it a part of MPI, its launcher's interface or its network's libraries, which belong together
 * and to the machine? */
int mpi_family_is_part(const char *name);

/* Is it glibc's, the loader's or a GPU driver's, which MPI must not bring? */
int mpi_family_is_foreign(const char *name);

#endif
