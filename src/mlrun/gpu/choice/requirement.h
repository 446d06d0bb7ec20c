/* NVIDIA_REQUIRE_...: alternatives by blanks, conditions by commas (libnvidia-container,
 * src/mlrun/cli/dsl.c). */
#ifndef MLR_GPU_REQUIREMENT_H
#define MLR_GPU_REQUIREMENT_H

#include "base/error.h"
#include "gpu/machine.h"
#include "gpu/version.h"

struct gpu_wish;
struct gpu_choice;

/* What conditions speak of; zero and NULL: unknown, then a condition holds. */
struct gpu_facts {
	struct gpu_version cuda, driver, arch;
	const char *brand;
};

/*
 * Does a requirement hold?
 *
 * text: "cuda>=12.4 brand=tesla,driver>=535,driver<536"; alternatives are tried from the left, and
 * what stands behind the first that holds is not read.
 *
 * more: asked at most once, when an alternative depends on nothing but what is unknown; fills that
 * in, as far as it can. NULL: what is unknown holds.
 *
 * Properties are cuda, driver, arch and brand in any case. A condition on another one holds, as in
 * nvidia-container-toolkit (libnvidia-container takes it for an error): images get properties
 * sooner than launchers do. Versions are compared number by number, missing ones are 0; brand knows
 * = and != alone, in any case. Empty conditions and alternatives do not count; a text of these
 * alone holds.
 *
 * Returns 1; 0 with the first alternative and the facts in err, and what to do where it asks for a
 * newer CUDA; -EINVAL for what is no requirement, naming the condition.
 */
int gpu_requirement_holds(const char *text, struct gpu_facts *facts,
	void (*more)(void *ctx, struct gpu_facts *facts), void *ctx, struct mlr_error *err);

/*
 * Do all requirements of a wish hold for each GPU of NVIDIA's that was chosen, or once when there
 * is none? Without NVIDIA's driver nothing is asked.
 *
 * fill: gpu_nvml_fill(), asked at most once and only when a condition on arch, brand or an unknown
 * CUDA decides. NULL: such a condition holds.
 *
 * Returns 0; -ENOTSUP for one that does not hold, -EINVAL for one that is none, both with
 * NVIDIA_DISABLE_REQUIRE=1 as a way out.
 */
int gpu_requirements_check(const struct gpu_wish *w, struct gpu_machine *m,
	const struct gpu_choice *c, int (*fill)(struct gpu_machine *m, struct mlr_error *err),
	struct mlr_error *err);

#endif
