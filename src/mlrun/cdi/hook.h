/*
 * Imitates the hooks of CDI files. Hooks are programs that a runtime executes beside the container,
 * with rights that a user's container lacks; mlrun executes none. Instead it adds to the plan what
 * NVIDIA's hooks would do (nvidia-container-toolkit's cmd/nvidia-cdi-hook; `mlrun gpu hook` in
 * files of an older mlrun took the same arguments):
 *
 *   create-symlinks --link TEXT::PATH      links
 *   create-soname-symlinks --folder DIR    links by SONAME to the libraries mounted in DIR
 *   update-ldcache --folder DIR            the linker's cache lists the libraries mounted in DIR
 *   enable-cuda-compat                     the image's newer CUDA libraries (compat.h)
 *   disable-device-node-modification       a /proc/driver/nvidia/params that says so
 *   update-application-profile             a profile that shows EGL the container's devices
 *   chmod                                  nothing: modes stay
 */
#pragma once

#include "cdi/edits.h"

/* Returns 0 or -ENOTSUP, naming the hook. */
int cdi_hook_check(const struct cdi_hook *h, struct mlr_error *err);

/* Add a hook's effect. The mounts of all devices must already be in the plan. */
int cdi_hook_plan(struct cdi_job *job, const struct cdi_hook *h);
