/*
 * The libraries of NVIDIA's driver, libcuda.so.1 and libnvidia-ml.so.1, which come with the machine
 * and not with CUDA: also where the linker is not told of them, as in containers and on nodes whose
 * driver lies in /usr/local/nvidia.
 */
#ifndef MLT_TENSOR_DRIVER_H
#define MLT_TENSOR_DRIVER_H

#include "base/error.h"

/*
 * Open one of them as dlopen(3) finds it, else from the directories that drivers are known to
 * lie in (`mlrun exec` looks there too).
 *
 * It stays open: whoever opens it by its soname from then on gets the same, as dlopen(3) compares
 * sonames with those of what is loaded. CUDA's runtime and NCCL do so when they are first used.
 *
 *   root    put before the directories; "" but for tests
 *   soname  "libcuda.so.1"
 *
 * Returns dlopen(3)'s handle. NULL: err's code is ENOENT, or ELIBACC where one was found and could
 * not be loaded; it names what was looked for, and its hint is the way out.
 */
void *driver_library_open(const char *root, const char *soname, struct mlr_error *err);

#endif
