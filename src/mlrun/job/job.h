/*
 * job: who this process is in the batch system: its job, its step and its rank.
 *
 * A new batch system is a row of system.c, and a new launcher of ranks a row of rank.c. Which GPUs
 * are the job's: gpu/choice/allocation.c.
 *
 * Every env is like environ(7). A variable that is empty counts as unset.
 */
#pragma once

#include "base/base.h"

/* The batch system whose job env belongs to: "Slurm", "PBS", "LSF" or "Flux"; NULL outside jobs. */
const char *job_system(char *const *env);

/* The job's id, as its batch system writes it, and the step's, where it has steps; in env. NULL
 * outside jobs and steps. */
const char *job_id(char *const *env);
const char *job_step_id(char *const *env);

/* Does a batch system or a launcher set the variable of this name for its jobs and ranks? */
int job_sets(const char *key);

struct job_rank {
	const char *number;   /* in the step, "0" and on; in env. NULL: not a rank */
	const char *launcher; /* what set it: "PMIx", "PMI", "Open MPI" or "Slurm" */
	int is_mpi;           /* a rank of an MPI program; Slurm numbers other tasks, too */
};

/* The rank that env belongs to. */
struct job_rank job_rank_read(char *const *env);

/*
 * A word that all ranks of a step on this node have in common, and no other process, to free().
 * NULL if this is not a rank of a parallel step. The first of
 *
 *   PMIX_NAMESPACE             PMIx: srun --mpi=pmix, Open MPI's mpirun
 *   OMPI_MCA_ess_base_jobid    Open MPI's mpirun
 *   SLURM_JOB_ID.SLURM_STEP_ID Slurm, if SLURM_STEP_NUM_TASKS is above 1 or there is a PMI
 *   PMI_FD                     Hydra, if PMI_SIZE is above 1: the process at the other end
 */
char *job_step(char *const *env);

/* The ranks that one command started, as far as a rank knows. Strings but address are env's. */
struct job_world {
	const char *rank, *size; /* of all: "0" and on; how many, two at least */
	const char *local;       /* the rank's number on its node */
	char *address;           /* of the node with rank 0; NULL if unknown */
	unsigned port;           /* for TCP, the same for all ranks, another one for other starts */
};

/*
 * The ranks that env's process belongs to: tasks of a Slurm step, also without MPI; ranks of Open
 * MPI's or Hydra's mpirun; tasks of Flux.
 *
 * The address is the first of SLURM_STEP_NODELIST, for mpirun's ranks the first node of the job by
 * SLURM_JOB_NODELIST, PBS_NODEFILE or LSB_MCPU_HOSTS; loopback where all ranks are on one node.
 *
 * Returns 1, or 0 if this is no rank, or the only one.
 */
int job_world_read(char *const *env, struct job_world *ret);
void job_world_done(struct job_world *w);

/* The first name in a list of Slurm's nodes, to free(): "cpu01" of "cpu[01-04,7],gpu1". NULL if it
 * is not such a list. */
char *job_nodes_first(const char *list);

#define JOB_NAME_SIZE 96

/*
 * The name of the calling process's job for job_is_alive(): "<job>.<step> <cluster>" by
 * SLURM_JOB_ID, SLURM_STEP_ID and SLURM_CLUSTER_NAME, "-" for what is missing. "" outside Slurm.
 */
void job_name(char name[JOB_NAME_SIZE]);

/*
 * Ask squeue(1) whether a job runs, once for each job and process and for at most five seconds.
 *
 * Returns 1 if it is pending or running, 0 if it has ended, -1 if that is unknown: no squeue, no
 * answer, another cluster, not a job.
 */
int job_is_alive(const char *name);

/*
 * Run one of the batch system's programs and read what it says, on stdout and stderr, without
 * input.
 *
 *   env   like environ(7)
 *   ms    it is killed if it has not ended by then
 *   said  gets the text, cut at its size
 *
 * Returns its exit status; -ENOENT and the like if it cannot be started; -ETIMEDOUT; -EPIPE if a
 * signal ended it.
 */
int job_ask(char *const *argv, char *const *env, int ms, char *said, size_t size);
