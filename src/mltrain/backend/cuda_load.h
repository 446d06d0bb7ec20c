/* The backends that load the plugin mltrain-cuda.so when an engine is opened. */
#ifndef MLT_BACKEND_CUDA_LOAD_H
#define MLT_BACKEND_CUDA_LOAD_H

#include "backend/backend.h"

/* An engine of theirs names the backend that computes. */
extern const struct backend backend_cuda;
extern const struct backend backend_auto; /* the CPU's where the GPU does not work, and says why */

/* Is there a driver of NVIDIA's, and the plugin? Loads nothing. */
int cuda_is_likely(void);

/* The fastest backend on this machine's CPU. */
const struct backend *backend_of_cpu(void);

#endif
