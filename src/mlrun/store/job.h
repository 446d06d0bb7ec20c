/*
 * Slurm jobs: whether the one that a process on another node belonged to still runs.
 */
#ifndef MLR_STORE_JOB_H
#define MLR_STORE_JOB_H

#define STORE_JOB_SIZE 96

/*
 * "<job>.<step> <cluster>" of the calling process by SLURM_JOB_ID, SLURM_STEP_ID and
 * SLURM_CLUSTER_NAME, what is missing as "-"; "" outside jobs.
 */
void store_job_self(char job[STORE_JOB_SIZE]);

/*
 * Ask squeue(1), once a job and process and for at most five seconds.
 *
 * Returns 1: it is pending or running; 0: it has ended; -1: there is no telling (no squeue, no
 * answer, another cluster, not a job).
 */
int store_job_alive(const char *job);

#endif
