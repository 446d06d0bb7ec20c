/* Parses, compares and prints dotted versions of drivers, CUDA and glibc. */
#pragma once

#define GPU_VERSION_PARTS 4

/* Missing parts are 0: 12 equals 12.0. All zero: unknown. */
struct gpu_version {
	unsigned part[GPU_VERSION_PARTS];
};

#define GPU_VERSION_TEXT 48

/* Parse "535.104.05". Returns 0, or -EINVAL also for trailing text. */
int gpu_version_parse(const char *text, struct gpu_version *ret);

/* Returns less than, equal to or greater than 0, like strcmp(3). */
int gpu_version_compare(const struct gpu_version *a, const struct gpu_version *b);

int gpu_version_is_known(const struct gpu_version *v);

/* Print at least two parts, without trailing zeros: "12.4"; or "unknown". Returns text. */
const char *gpu_version_print(const struct gpu_version *v, char text[GPU_VERSION_TEXT]);
