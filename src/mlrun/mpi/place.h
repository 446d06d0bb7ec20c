/* Finds MPI implementations in a tree: an image's or the machine's. */
#pragma once

#include "base/config.h"
#include "gpu/elf.h"
#include "gpu/gpu.h"
#include "gpu/root.h"

struct mpi_tree {
	const struct gpu_image *files;
	struct strv dirs; /* where the linker looks, in order */
	struct mpi_tree_dir *known;
	size_t n_known;
};

enum mpi_family {
	MPI_NONE,
	MPI_OPEN,  /* Open MPI: libmpi.so.40 */
	MPI_MPICH, /* MPICH, Intel MPI, MVAPICH2, Cray MPICH: libmpi.so.12 (MPICH ABI initiative) */
};

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

/* Tells MPI libraries by their names: two families, in which a program runs with each other's
 * library if its SONAME is the same. */

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

/* Finds libraries in an image or on the machine, as the dynamic linker there would (ld.so(8)). */

struct mpi_tree_dir {
	char *path;
	struct strv names; /* sorted */
};

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
