/*
 * spank: the plugin of Slurm that gives srun, sbatch and salloc options for containers, those of
 * Pyxis. Every task becomes `mlrun exec`; nothing but the reading of options runs as root.
 *
 * Here: the options and their environment twins.
 */
#pragma once

#include "base/base.h"

/* Symbols that Slurm looks up in the plugin are visible from outside, unlike the others. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

/* Settings of the user. */
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
	SPANK_SAVE,    /* a file on the node, relative to the job's directory */
	SPANK_STAGE,   /* a directory of each node for a copy of the image; spank/stage.h */
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

/* The value that options gave in this process, in the order of the command line; or NULL. In
 * slurmstepd Slurm hands over only the last of a list, in the order of --help, so settings come in
 * variables instead. */
const char *spank_option(enum spank_setting which);

/* Was there an option whose value could not be kept? Its task must not run. */
int spank_option_is_lost(void);

/*
 * A step's settings: each an option's value, else the job's, that of an option of sbatch or salloc;
 * else MLRUN_CONTAINER_*'s, else PYXIS_CONTAINER_*'s; NULL if none is set.
 *
 *   settings  SPANK_SETTINGS of them
 *   variable  returns the value of an environment variable or NULL
 */
void spank_settings(const char **settings, const char *(*variable)(const char *name));

/*
 * Settings are passed on in variables SLURM_SPANK_MLRUN_JOB_* by sbatch and salloc, for the batch
 * script and as the default of steps, and SLURM_SPANK_MLRUN_STEP_* by srun, for tasks. Slurm passes
 * this prefix on whatever --export says.
 */
enum spank_pass { SPANK_OF_JOB, SPANK_OF_STEP };

/* Set the variables. Returns 0, or -1 without memory. */
int spank_pass_on(enum spank_pass pass, const char *const *settings);

/* Read them. Returns 0 if they are not set at all. */
int spank_passed(
	enum spank_pass pass, const char **settings, const char *(*variable)(const char *));

/* In sbatch and salloc: unset all of them, and Slurm's own variables of these options. They are
 * those of a job in which this submission is made. */
void spank_forget(void);

/* Shifter's options: 0 image, 1 volume, 2 module; NULL if not given. */
const char *spank_shifter_option(int which);
