/*
 * An environment variable that says what is wanted: of the user (-e, --env-file, configuration),
 * else of the caller, else of the image.
 */
#ifndef MLR_GPU_VARIABLE_H
#define MLR_GPU_VARIABLE_H

#include "gpu/gpu.h"

struct gpu_variable {
	const char *key;
	const char *value;       /* NULL: nobody has set it */
	enum plan_origin origin; /* who has */
};

/* Strings stay the caller's, the plan's and the environment's. */
struct gpu_variable gpu_variable_get(
	const struct gpu_request *q, const struct plan *p, const char *key);

/* "the image's NVIDIA_VISIBLE_DEVICES=all", to free(). The value is not NULL. */
char *gpu_variable_who(const struct gpu_variable *v);

/* "KEY=value", of a long value its beginning, as each item of a list may have a message of its own.
 * To free(). */
char *gpu_variable_print(const char *key, const char *value);

/* Adds the items between commas, without blanks around them and without empty ones. */
void gpu_variable_items(const char *text, struct strv *ret);

#endif
