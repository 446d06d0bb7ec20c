/* Which GPUs a container gets: those that are wanted and that the job and the user have. */
#ifndef MLR_GPU_CHOICE_H
#define MLR_GPU_CHOICE_H

#include "gpu/machine.h"
#include "gpu/choice/wish.h"

/* What the job has been given, as its environment tells. */
struct gpu_allocation {
	int is_job;    /* there is a job at all */
	char *from;    /* "CUDA_VISIBLE_DEVICES=2,3", for messages; NULL: nobody says which */
	size_t *order; /* of machine->gpus, n of them, in the order in which the job counts them */
	int *mig;      /* the part of each, an index into gpu->mig; -1: the whole */
	size_t n;
	int by_uuid; /* its list names uuids, which are good inside as well */
	/* Sentences: what does not count and why, variables that contradict each other. */
	struct strv remarks;
	/* The first of these about a GPU that the job names and this user cannot have; NULL. */
	char *lost;
};

#define GPU_ALLOCATION_INIT \
	{                   \
		0           \
	}

void gpu_allocation_done(struct gpu_allocation *a);

/*
 * NVIDIA's GPUs by CUDA_VISIBLE_DEVICES as CUDA reads it (CUDA C++ Programming Guide, "CUDA
 * Environment Variables"): an index counts among the GPUs that can be opened, by bus id; "GPU-…"
 * may be shortened as long as it names one; "MIG-…", "MIG-GPU-…/<gi>/<ci>"; "", "-1" and Slurm's
 * "NoDevFiles" are none; what follows the first that is not there is left out. Else
 * SLURM_STEP_GPUS, else SLURM_JOB_GPUS: numbers of all the machine's GPUs, those of their nodes,
 * whatever the job's cgroup denies. AMD's by ROCR_VISIBLE_DEVICES and, counted within these,
 * HIP_VISIBLE_DEVICES; without both by CUDA_VISIBLE_DEVICES, as HIP does, then Slurm's. A step of
 * Slurm's that has the job's variable and not its own has none (srun --gres=none). Nobody says: all
 * that can be opened. What cannot be opened is never in it.
 *
 * Returns 0.
 */
int gpu_allocation_read(char *const *env, const struct gpu_machine *m, struct gpu_allocation *ret,
	struct mlr_error *err);

struct gpu_chosen {
	size_t gpu; /* of machine->gpus */
	int mig;    /* of gpu->mig; -1: the whole, with all its parts */
};

struct gpu_choice {
	struct gpu_chosen *v; /* in the job's order; parts of one GPU by their number */
	size_t n;
	struct strv remarks; /* sentences: what was chosen, what was left out and why */
	/* What the user must read: GPUs were asked for, are here, and none is had. */
	struct strv notes;
	/* Each vendor's numbers as the container will count them, for CUDA_VISIBLE_DEVICES and its
	 * like: "1,0", uuids where the job has uuids or models differ and for parts; NULL: the
	 * variable is not needed, as all are in order. It must then be taken out, since it counts
	 * outside. */
	char *visible[GPU_VENDORS];
};

#define GPU_CHOICE_INIT \
	{               \
		NULL, 0 \
	}

void gpu_choice_done(struct gpu_choice *c);

/*
 * Does the wish or the job name a uuid that only gpu_nvml_fill() can look up: of a MIG part, or of
 * a GPU that the driver has not woken yet?
 */
int gpu_choice_needs_nvml(const struct gpu_wish *w, char *const *env, const struct gpu_machine *m);

/*
 * A number among the items of a wish counts as nvidia-smi does (gpu->index), NVIDIA's GPUs where
 * there are any, else AMD's.
 *
 * Returns 0; -ENODEV for an item that is no GPU of this machine, naming those that are; -EACCES for
 * one that is not the job's or that the user cannot open; both when w->must, else a remark.
 */
int gpu_choose(const struct gpu_wish *w, const struct gpu_machine *m,
	const struct gpu_allocation *a, struct gpu_choice *ret, struct mlr_error *err);

#endif
