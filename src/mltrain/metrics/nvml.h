/*
 * What NVIDIA's management library, libnvidia-ml.so.1, tells of the load of GPUs: loaded when it
 * is there, never needed (base/nvml.h).
 */
#ifndef MLT_METRICS_NVML_H
#define MLT_METRICS_NVML_H

#include "metrics/load.h"

struct nvml_watch;

/*
 * Load and start the library. Of the node's GPUs those are looked at that CUDA_VISIBLE_DEVICES
 * names, by number in NVML's order or by UUID, all where it is not set. Returns NULL when there is
 * no library, no driver, or no such GPU, which is told at debug level.
 */
struct nvml_watch *nvml_open(void);

/* Sample them. Returns how many of at most max, 0 for NULL. */
int nvml_read(const struct nvml_watch *n, struct load_gpu *ret, int max);

/* NULL is fine. The library stays loaded, as it may have threads. */
void nvml_close(struct nvml_watch **n);

/* Is the GPU of this index and UUID among a list as CUDA_VISIBLE_DEVICES is? NULL lists all. */
int nvml_is_listed(const char *list, unsigned index, const char *uuid);

#endif
