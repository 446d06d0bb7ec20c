/*
 * Finds the libraries of NVIDIA's driver, libcuda.so.1 and libnvidia-ml.so.1. They belong to the
 * machine, not to CUDA, and the dynamic linker may not know where they are: in containers, or on
 * nodes that have the driver in /usr/local/nvidia.
 */
#pragma once

#include "base/base.h"

/*
 * Open a library where dlopen(3) finds it, else in the directories where drivers are usually
 * installed (`mlrun exec` looks there too).
 *
 * It stays open. Code that later opens it by soname gets the same library, because dlopen(3)
 * compares sonames with those already loaded. CUDA's runtime and NCCL do so on first use.
 *
 *   root    prefix of the directories; "" except in tests
 *   soname  "libcuda.so.1"
 *
 * Returns dlopen(3)'s handle, or NULL. err's code is then ENOENT, or ELIBACC if a library was found
 * but could not be loaded. err names the library and has a hint.
 */
void *driver_library_open(const char *root, const char *soname, struct mlr_error *err);
