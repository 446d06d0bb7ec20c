/* Finds MPI implementations in a tree: an image's or the machine's. */
#ifndef MLR_MPI_PLACE_H
#define MLR_MPI_PLACE_H

#include "base/config.h"
#include "mpi/family.h"
#include "mpi/tree.h"

struct mpi_place {
	enum mpi_family family;
	char *dir, *name;           /* "/usr/lib", "libmpi.so.40" */
	struct gpu_version version; /* of its file name: 40.30.4; or only 40 */
};

#define MPI_PLACE_INIT                \
	{                             \
		MPI_NONE, NULL, NULL, \
		{                     \
			{             \
				0     \
			}             \
		}                     \
	}

void mpi_place_done(struct mpi_place *p);

/*
 * Find an MPI implementation.
 *
 *   first  directories to search before the linker's own
 *   like   prefer one of its family and SONAME's number; NULL or MPI_NONE: take the first
 *
 * Returns 1; 0 if there is none. If none is like it, ret is the first.
 */
int mpi_place_find(struct mpi_tree *t, const struct strv *first, const struct mpi_place *like,
	struct mpi_place *ret);

/* Are the libraries of one ABI: same family, same number of the SONAME? */
int mpi_place_fits(const struct mpi_place *a, const struct mpi_place *b);

/* Directories of an image that no linker's cache tells of: those beside the directories of its
 * PATH, which may be NULL, and the usual ones, "/usr/lib64/mpich/lib". */
void mpi_place_usual(const char *path, struct strv *ret);

/* How the machine's MPI is searched for. */
struct mpi_place_search {
	const struct gpu_dir *d;      /* the machine's root */
	const struct config *config;  /* for [mpi] libraries; may be NULL */
	char *const *env;             /* as environ(7), for PATH */
	const struct mpi_place *like; /* as for mpi_place_find() */
};

/*
 * Find the machine's MPI: in the directories or among the files of [mpi] libraries; without that
 * setting, beside what mpirun, mpiexec, mpicc and ompi_info on PATH resolve to, else where the
 * machine's linker looks.
 *
 *   named  gets the setting's directories
 *   files  gets its files
 *
 * Returns 1; 0 if there is none.
 */
int mpi_place_find_machines(const struct mpi_place_search *s, struct mpi_tree *t,
	struct strv *named, struct strv *files, struct mpi_place *ret);

#endif
