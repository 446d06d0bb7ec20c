/* Versions as drivers, CUDA and glibc count them: numbers with dots. */
#ifndef MLR_GPU_VERSION_H
#define MLR_GPU_VERSION_H

#define GPU_VERSION_PARTS 4

/* Parts that are not there are 0, so that 12 is 12.0; all zero: unknown. */
struct gpu_version {
	unsigned part[GPU_VERSION_PARTS];
};

#define GPU_VERSION_TEXT 48

/* "535.104.05" and nothing behind it. Returns 0 or -EINVAL. */
int gpu_version_parse(const char *text, struct gpu_version *ret);

/* Less than, equal to or greater than 0, as a is to b. */
int gpu_version_compare(const struct gpu_version *a, const struct gpu_version *b);

int gpu_version_is_known(const struct gpu_version *v);

/* "12.4", at least two parts, without zeros at the end; "unknown". Returns its argument. */
const char *gpu_version_print(const struct gpu_version *v, char text[GPU_VERSION_TEXT]);

#endif
