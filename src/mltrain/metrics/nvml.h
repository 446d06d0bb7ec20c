/*
 * The load of GPUs by NVIDIA's management library, libnvidia-ml.so.1, which is loaded if it is
 * installed and never required (base/nvml.h).
 */
#ifndef MLT_METRICS_NVML_H
#define MLT_METRICS_NVML_H

#include "metrics/usage.h"

struct nvml_watch;

/*
 * Load and start the library. It samples the GPUs that CUDA_VISIBLE_DEVICES names by number in
 * NVML's order or by UUID, or all of the node if the variable is not set. Returns NULL without a
 * library, a driver or such a GPU, which is logged at debug level.
 */
struct nvml_watch *nvml_open(void);

/* Sample at most max GPUs. Returns their number; 0 for NULL. */
int nvml_read(const struct nvml_watch *n, struct usage_gpu *ret, int max);

/* NULL is fine. The library stays loaded, as it may have threads. */
void nvml_close(struct nvml_watch **n);

/* Is a GPU in a list in CUDA_VISIBLE_DEVICES' form? A NULL list contains all. */
int nvml_is_listed(const char *list, unsigned index, const char *uuid);

#endif
