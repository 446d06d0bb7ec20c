/*
 * The hooks of CDI files. Hooks are programs that a runtime executes beside the container with
 * rights that a user's container lacks; none is executed here. What NVIDIA's do
 * (cmd/nvidia-cdi-hook of nvidia-container-toolkit, and `mlrun gpu hook`, which takes the same
 * words) is put into the plan instead:
 *
 *   create-symlinks --link TEXT::PATH      links
 *   create-soname-symlinks --folder DIR    links by SONAME to libraries that are mounted there
 *   update-ldcache --folder DIR            libraries that are mounted there are known to the linker
 *   enable-cuda-compat                     the image's newer libraries (compat.h)
 *   disable-device-node-modification       /proc/driver/nvidia/params that says so
 *   update-application-profile             EGL sees the devices that are there
 *   chmod                                  nothing: modes are as they are
 */
#ifndef MLR_CDI_HOOK_H
#define MLR_CDI_HOOK_H

#include "cdi/edits.h"

/* Returns 0 or -ENOTSUP, naming the hook. */
int cdi_hook_check(const struct cdi_hook *h, struct mlr_error *err);

/* The mounts of all devices are in the plan by then. */
int cdi_hook_plan(struct cdi_job *job, const struct cdi_hook *h);

#endif
