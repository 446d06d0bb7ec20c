/* Would an image work with a machine's GPUs? `mlrun gpu check`. */
#ifndef MLR_GPU_CHECK_H
#define MLR_GPU_CHECK_H

#include "gpu/choice/choice.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"

/* Not needed: the image asks for no GPU. Doubtful: works for most programs, or cannot be known
 * without a start. */
enum gpu_verdict { GPU_OK, GPU_NOT_NEEDED, GPU_DOUBTFUL, GPU_FAILS };

struct gpu_finding {
	enum gpu_verdict verdict;
	const char *subject; /* "platform", "driver", "devices", "capabilities", "requirements",
				"cuda", "libc" */
	char *text;          /* what is so */
	char *mend;          /* what to do; NULL: nothing */
};

struct gpu_report {
	struct gpu_finding *v; /* in the order of the subjects; a subject may have several */
	size_t n;
};

#define GPU_REPORT_INIT \
	{               \
		NULL, 0 \
	}

void gpu_report_done(struct gpu_report *r);

/* The worst of its findings. */
enum gpu_verdict gpu_report_verdict(const struct gpu_report *r);

/*
 * Judge it.
 *
 *   q     word, caller and image environment are of the job that would be; when nobody asks for a
 *         GPU it is judged as if --gpu=all did
 *   p     has the image's platform and the environment
 *   m     the machine, or one that was recorded
 *   fill  gpu_nvml_fill() for this machine, asked only when nothing else can tell; NULL for another
 *   ret   gets the findings, to gpu_report_done()
 */
void gpu_check(const struct gpu_request *q, const struct plan *p, struct gpu_machine *m,
	int (*fill)(struct gpu_machine *m, struct mlr_error *err), struct gpu_report *ret);

/*
 * Judge by NVIDIA's "CUDA Compatibility": a driver serves the CUDA of its time and all before it;
 * from CUDA 11 and driver 450.80.02 on also later ones of the same major version, unless a
 * program's kernels are PTX alone; and later majors where the image brings libcuda itself and the
 * GPU is a data centre's.
 */
struct gpu_finding gpu_cuda_check(
	const struct gpu_request *q, const struct gpu_machine *m, const struct gpu_choice *c);

/*
 * Is the image's CUDA too new or too old for a chosen GPU's compute capability? Returns 1 and a
 * finding of the first GPU for which it is, or 0, also where one or the other is not known.
 */
int gpu_cuda_check_arch(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, struct gpu_finding *ret);

#endif
