/* Chooses the GPUs of a container: those that are wanted and that the job and the user have. */
#pragma once

#include "gpu/machine.h"
#include "gpu/choice/wish.h"

struct gpu_chosen {
	size_t gpu; /* index into machine->gpus */
	int mig;    /* index into gpu->mig; -1: the GPU with all its parts */
};

/* The job's share, according to its environment. */
struct gpu_allocation {
	int is_job; /* inside a job */
	char *from; /* "CUDA_VISIBLE_DEVICES=2,3", for messages; NULL: no variable lists them */
	struct gpu_chosen *v; /* in the job's order */
	size_t n;
	int by_uuid; /* listed by UUIDs, which are valid inside too */
	/* Sentences: ignored variables with the reason, and contradictions. */
	struct strv remarks;
	/* The first remark about a GPU that the job lists and the user cannot have; NULL. */
	char *lost;
};

void gpu_allocation_done(struct gpu_allocation *a);

/*
 * Read the job's share.
 *
 * NVIDIA's GPUs by CUDA_VISIBLE_DEVICES as CUDA reads it (CUDA C++ Programming Guide, "CUDA
 * Environment Variables"): an index counts the GPUs that can be opened, by bus id; "GPU-…" may be
 * shortened while unique; "MIG-…", "MIG-GPU-…/<gi>/<ci>"; "", "-1" and Slurm's "NoDevFiles" select
 * none; the list ends at the first unknown item. Without it SLURM_STEP_GPUS, then SLURM_JOB_GPUS:
 * numbers of all the machine's GPUs, those of their nodes, whatever the job's cgroup denies. AMD's
 * GPUs by ROCR_VISIBLE_DEVICES and, counted within these, HIP_VISIBLE_DEVICES; without both by
 * CUDA_VISIBLE_DEVICES, as HIP does, then Slurm's. A step of Slurm with the job's variable but not
 * its own has none (srun --gres=none). Without any variable: all that can be opened. What cannot be
 * opened is never in the share.
 */
void gpu_allocation_read(char *const *env, const struct gpu_machine *m, struct gpu_allocation *ret);

struct gpu_choice {
	struct gpu_chosen *v; /* in the job's order; parts of a GPU by number */
	size_t n;
	struct strv remarks; /* sentences: what was chosen and omitted, and why */
	/* Warnings for the user: GPUs were requested and exist, but none is available. */
	struct strv notes;
	/* Each vendor's value for CUDA_VISIBLE_DEVICES and the like, as the container counts:
	 * "1,0"; UUIDs where the job has UUIDs, where models differ, and for parts. NULL: remove
	 * the variable; all GPUs are there in order, and the caller's value counts GPUs outside. */
	char *visible[GPU_VENDORS];
};

void gpu_choice_done(struct gpu_choice *c);

/*
 * Does the wish or the job contain a UUID that only gpu_nvml_fill() knows: of a MIG part, or of a
 * GPU that the driver has not yet woken?
 */
int gpu_choice_needs_nvml(const struct gpu_wish *w, char *const *env, const struct gpu_machine *m);

/*
 * Choose the GPUs that are both in the wish and in the job's share. A number in the wish counts
 * like nvidia-smi (gpu->index): NVIDIA's GPUs if there are any, else AMD's.
 *
 * Returns 0; -ENODEV for an item that this machine lacks, naming those it has; -EACCES for one that
 * the job does not have or the user cannot open; both only with w->must, else a remark.
 */
int gpu_choose(const struct gpu_wish *w, const struct gpu_machine *m,
	const struct gpu_allocation *a, struct gpu_choice *ret, struct mlr_error *err);
