/* The step of a batch job that this process was started in. */
#ifndef MLR_WORK_STEP_H
#define MLR_WORK_STEP_H

#include "base/proc.h"

struct step {
	struct proc_stat keeper; /* Slurm's process for it; pid 0: none */
	int fd;                  /* a pidfd of it; -1: none, as before Linux 5.3 */
};

#define STEP_INIT         \
	{                 \
		.fd = -1, \
	}
void step_done(struct step *s);

/* Find the step's slurmstepd among the ancestors; pid is 0 outside a step. proc: /proc */
void step_find(int proc, struct step *ret);

/* Has it ended? */
int step_has_ended(int proc, const struct step *s);

#endif
