/* What GPUs and their parts are called. */
#ifndef MLR_GPU_NAME_H
#define MLR_GPU_NAME_H

#include "gpu/choice/choice.h"
#include "gpu/machine.h"

/*
 * Find a GPU, or a part of one, by its name.
 *
 *   vendor  whose GPUs a number counts
 *   text    "0" (gpu->index); "GPU-8932f937", as much of a uuid as names one; "0000:3b:00.0",
 * "3b:00.0", "00000000:3B:00.0"; "0:1", a part by number; "MIG-…", its uuid; "MIG-GPU-…/1/0", by
 * GPU, GPU instance and compute instance; letters of any case
 *
 * Returns 0; -ENODEV for what is not here; -ENOTUNIQ for a uuid that is too short to name one.
 */
int gpu_name_find(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	struct gpu_chosen *ret);

/* Is it a uuid, of a GPU or a part? */
int gpu_name_is_uuid(const char *text);

/* "0 (NVIDIA H200, GPU-…)", "0:1 (MIG-…)", to free(). A GPU that cannot be opened goes by its bus
 * id. */
char *gpu_name_print(const struct gpu_machine *m, struct gpu_chosen c);

/* Those that can be opened, with their parts, "0 (…), 1 (…)", to free(); "none". */
char *gpu_name_list(const struct gpu_machine *m);

/* Why this user cannot open it, to free(); NULL: he can. */
char *gpu_name_obstacle(const struct gpu_machine *m, struct gpu_chosen c);

/* What the container calls it whatever else it has, "GPU-…", "MIG-…", to free(); NULL: its uuid is
 * unknown. */
char *gpu_name_uuid(const struct gpu_machine *m, struct gpu_chosen c);

#endif
