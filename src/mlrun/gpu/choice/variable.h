/*
 * Finds an environment variable that expresses a wish: the user's (-e, --env-file, configuration),
 * else the caller's, else the image's.
 */
#pragma once

#include "gpu/gpu.h"

struct gpu_variable {
	const char *key;
	const char *value;       /* NULL: unset */
	enum plan_origin origin; /* who set it */
};

/* The strings belong to the caller, the plan and the environment. */
struct gpu_variable gpu_variable_get(
	const struct gpu_request *q, const struct plan *p, const char *key);

/* Print "the image's NVIDIA_VISIBLE_DEVICES=all", to free(). The value must not be NULL. */
char *gpu_variable_who(const struct gpu_variable *v);

/* Print "KEY=value", a long value shortened. To free(). */
char *gpu_variable_print(const char *key, const char *value);

/* Add the items between commas, trimmed; empty ones are skipped. */
void gpu_variable_items(const char *text, struct strv *ret);
