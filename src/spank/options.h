/*
 * spank: the plugin of Slurm that gives srun, sbatch and salloc options for containers, those of
 * Pyxis. Every task becomes `mlrun exec`; nothing but the reading of options runs as root.
 *
 * Here: the options and their environment twins.
 */
#ifndef MLR_SPANK_OPTIONS_H
#define MLR_SPANK_OPTIONS_H

#include <stdint.h> /* spank.h needs it */

/* What Slurm looks up in the plugin is seen from outside, unlike all else in it. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

/* What the user may set. */
enum spank_setting {
	SPANK_IMAGE,      /* a name, REGISTRY#NAME, or a path that begins with "/" or "./" */
	SPANK_MOUNTS,     /* SRC[:DST[:FLAG+FLAG]],... */
	SPANK_WORKDIR,    /* a directory in the container */
	SPANK_NAME,       /* NAME[:auto|create|exec|no_exec] */
	SPANK_MOUNT_HOME, /* "1" or "0", as the next five */
	SPANK_REMAP_ROOT,
	SPANK_ENTRYPOINT,
	SPANK_ENTRYPOINT_LOG,
	SPANK_WRITABLE,
	SPANK_ENV,     /* A,B,...: the job's values win over the image's */
	SPANK_UNSHARE, /* net, ipc, uts */
	SPANK_GPU,     /* as mlrun exec's --gpu */
	SPANK_MPI,     /* as mlrun exec's --mpi */
	SPANK_SETTINGS
};

/* Arguments of the plugin in plugstack.conf, those of Pyxis and mlrun=PATH; others of Pyxis are
 * accepted and change nothing. */
struct spank_site {
	const char *mlrun;   /* the program, an absolute path */
	int runs_entrypoint; /* execute_entrypoint=1 */
	int job_scope;       /* container_scope=job: a named container is the job's */
	int no_sbatch;       /* sbatch_support=0: batch scripts stay outside */
	int has_shifter; /* shifter: --image, --volume and --module, too; 2: as --shifter.image */
};

/* Read the arguments. Returns 0, or -1 after logging an unknown one. */
int spank_site_read(int argc, char **argv, struct spank_site *ret);

/* Register the options. For slurm_spank_init() of srun, sbatch, salloc and slurmstepd. */
int spank_options_register(spank_t sp, const struct spank_site *site);

/* A setting's value: an option's, else MLRUN_CONTAINER_*'s, else PYXIS_CONTAINER_*'s; NULL if
 * neither is set.
 *
 *   variable  returns the value of an environment variable or NULL
 */
const char *spank_setting(enum spank_setting which, const char *(*variable)(const char *name));

/* Does an option say it, whatever the environment says? */
int spank_is_option(enum spank_setting which);

/* Shifter's options: 0 image, 1 volume, 2 module; NULL if not given. */
const char *spank_shifter_option(int which);

#endif
