/* Acts in srun, sbatch and salloc, as the user: the image's tag becomes a digest. */
#pragma once

#include "spank/options.h"

/* The variable that goes with the job: "IMAGE PIN", mlrun's name and the one that `mlrun inspect
 * --pin` gives for it. Slurm passes variables of this prefix on even with --export=NONE. */
#define SPANK_PIN_VARIABLE "SLURM_SPANK_MLRUN_PIN"

/* A random word in the name of --container-stage's file, which no other user can make before. */
#define SPANK_STAGE_VARIABLE "SLURM_SPANK_MLRUN_STAGE"

/* The file of srun's --task-prolog, and "1" with --multi-prog: what slurmstepd would do itself
 * after the plugin's hook. */
#define SPANK_PROLOG_VARIABLE "SLURM_SPANK_MLRUN_PROLOG"
#define SPANK_MULTI_VARIABLE  "SLURM_SPANK_MLRUN_MULTI_PROG"

/* The submitter's MLRUN_STORE, likewise. */
#define SPANK_STORE_VARIABLE "SLURM_SPANK_MLRUN_STORE"

/*
 * Check the options, and set SPANK_PIN_VARIABLE, so that every node, step and requeue of the job
 * runs the same image; one that is set for this image stays. If neither store nor registry can say
 * what the tag means, the nodes decide.
 *
 *   is_srun  the tasks start next, and say what is wrong with the image
 *
 * Returns 0, or -1 after logging an invalid option.
 */
int spank_submit(const struct spank_site *site, int is_srun);

/* In srun, when the step is there and its tasks are about to start: do what must be done before.
 * Returns 0, or -1 after logging why the step cannot run. */
int spank_begin(spank_t sp, const struct spank_site *site);
