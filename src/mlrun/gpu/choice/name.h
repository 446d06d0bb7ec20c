/* Finds GPUs and their parts by name, and prints their names. */
#pragma once

#include "gpu/choice/choice.h"
#include "gpu/machine.h"

/*
 * Find a GPU, or a part of one, by its name.
 *
 *   vendor  whose GPUs a number counts
 *   text    "0" (gpu->index); "GPU-8932f937", a unique beginning of a UUID; "0000:3b:00.0",
 *           "3b:00.0", "00000000:3B:00.0"; "0:1", a part by number; "MIG-…", its UUID;
 *           "MIG-GPU-…/1/0", by GPU, GPU instance and compute instance; in any case
 *
 * Returns 0; -ENODEV if not found; -ENOTUNIQ for an ambiguous beginning of a UUID.
 */
int gpu_name_find(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	struct gpu_chosen *ret);

/* Is text a UUID, of a GPU or a part? */
int gpu_name_is_uuid(const char *text);

/* Print "0 (NVIDIA H200, GPU-…)", "0:1 (MIG-…)"; a GPU that cannot be opened by its bus id. To
 * free(). */
char *gpu_name_print(const struct gpu_machine *m, struct gpu_chosen c);

/* List those that can be opened, with their parts: "0 (…), 1 (…)" or "none". To free(). */
char *gpu_name_list(const struct gpu_machine *m);

/* Explain why this user cannot open it, to free(); NULL: it can be opened. */
char *gpu_name_obstacle(const struct gpu_machine *m, struct gpu_chosen c);

/* Its UUID, valid in any container, "GPU-…", "MIG-…", to free(); NULL: unknown. */
char *gpu_name_uuid(const struct gpu_machine *m, struct gpu_chosen c);
