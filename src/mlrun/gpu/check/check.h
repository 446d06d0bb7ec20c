/* Judges whether an image would work with a machine's GPUs, for `mlrun gpu check`. */
#ifndef MLR_GPU_CHECK_H
#define MLR_GPU_CHECK_H

#include "gpu/choice/choice.h"
#include "gpu/gpu.h"
#include "gpu/machine.h"

/* NOT_NEEDED: the image asks for no GPU. DOUBTFUL: works for most programs, or only a start can
 * tell. */
enum gpu_verdict { GPU_OK, GPU_NOT_NEEDED, GPU_DOUBTFUL, GPU_FAILS };

struct gpu_finding {
	enum gpu_verdict verdict;
	const char *subject; /* "platform", "driver", "devices", "capabilities", "requirements",
				"cuda", "libc" */
	char *text;          /* the finding */
	char *mend;          /* what to do; NULL */
};

struct gpu_report {
	struct gpu_finding *v; /* by subject; a subject may have several */
	size_t n;
};

void gpu_report_done(struct gpu_report *r);

/* Add a finding; takes both strings. mend may be NULL. */
void gpu_report_add(struct gpu_report *r, enum gpu_verdict verdict, const char *subject, char *text,
	char *mend);

/* The worst verdict of the findings. */
enum gpu_verdict gpu_report_verdict(const struct gpu_report *r);

/*
 * Judge an image.
 *
 *   q     word, caller and image environment of the job; if nobody asks for a GPU, judge as with
 *         --gpu=all
 *   p     has the image's platform and the environment
 *   m     this machine, or a recorded one
 *   fill  gpu_nvml_fill() for this machine, called only when nothing else can tell; else NULL
 *   ret   gets the findings, to gpu_report_done()
 */
void gpu_check(const struct gpu_request *q, const struct plan *p, struct gpu_machine *m,
	int (*fill)(struct gpu_machine *m, struct mlr_error *err), struct gpu_report *ret);

/*
 * Judge by NVIDIA's "CUDA Compatibility": a driver supports the CUDA of its time and all earlier
 * ones; from CUDA 11 and driver 450.80.02 on, also later ones of the same major version, except for
 * programs whose kernels are PTX only; and later major versions if the image contains libcuda and
 * the GPU is a data centre's.
 */
struct gpu_finding gpu_cuda_check(
	const struct gpu_request *q, const struct gpu_machine *m, const struct gpu_choice *c);

/*
 * Is the image's CUDA too new or too old for a chosen GPU's compute capability? Returns 1 and a
 * finding about the first such GPU; 0 otherwise, also if one of the two is unknown.
 */
int gpu_cuda_check_arch(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, struct gpu_finding *ret);

#endif
