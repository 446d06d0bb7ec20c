/* The backends that load the plugin mltrain-cuda.so when an engine is opened. */
#ifndef MLT_BACKEND_CUDA_LOAD_H
#define MLT_BACKEND_CUDA_LOAD_H

#include "backend/backend.h"

/* Their engines name the backend that computes. */
extern const struct backend backend_cuda;
extern const struct backend backend_auto; /* the CPU's if the GPU does not work; says why */

/* Are NVIDIA's driver and the plugin installed? Loads nothing. */
int cuda_is_likely(void);

/* Return the fastest backend for this machine's CPU. */
const struct backend *backend_of_cpu(void);

#endif
