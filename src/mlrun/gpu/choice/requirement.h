/* Evaluates NVIDIA_REQUIRE_...: spaces separate alternatives, commas separate conditions
 * (libnvidia-container, src/cli/dsl.c). */
#pragma once

#include "gpu/machine.h"

struct gpu_wish;
struct gpu_choice;

/* The values that conditions compare. A condition on an unknown one, zero or NULL, holds. */
struct gpu_facts {
	struct gpu_version cuda, driver, arch;
	const char *brand;
};

/*
 * Does a requirement hold?
 *
 *   text  "cuda>=12.4 brand=tesla,driver>=535,driver<536"; the first alternative that holds ends
 *         the evaluation
 *   more  called at most once, when an alternative depends only on unknown values; fills them in as
 *         far as possible. NULL: they stay unknown
 *
 * The properties cuda, driver, arch and brand match in any case. A condition on another property
 * holds, as in nvidia-container-toolkit (libnvidia-container fails): images learn new properties
 * before launchers do. Versions are compared number by number, missing ones are 0; brand has only =
 * and !=, in any case. Empty conditions and alternatives are ignored; a text of these alone holds.
 *
 * Returns 1; 0 with the first alternative and the values in err, and a hint where it needs a newer
 * CUDA; -EINVAL for an invalid text, naming the condition.
 */
int gpu_requirement_holds(const char *text, struct gpu_facts *facts,
	void (*more)(void *ctx, struct gpu_facts *facts), void *ctx, struct mlr_error *err);

/*
 * Check all requirements of a wish for each chosen NVIDIA GPU, or once without a GPU. Without
 * NVIDIA's driver nothing is checked.
 *
 * fill: gpu_nvml_fill(), called at most once, when a condition on arch, brand or an unknown CUDA
 * decides. NULL: such a condition holds.
 *
 * Returns 0; -ENOTSUP for a requirement that does not hold, -EINVAL for an invalid one; both hint
 * at NVIDIA_DISABLE_REQUIRE=1.
 */
int gpu_requirements_check(const struct gpu_wish *w, struct gpu_machine *m,
	const struct gpu_choice *c, int (*fill)(struct gpu_machine *m, struct mlr_error *err),
	struct mlr_error *err);
