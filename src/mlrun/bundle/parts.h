/* The parts of a bundle's plan, each in a file of its own, which bundle.c puts together. */
#ifndef MLR_BUNDLE_PARTS_H
#define MLR_BUNDLE_PARTS_H

#include "base/error.h"
#include "plan/plan.h"

#include <jansson.h>

/* process.c: "process", with the ids that "linux" maps: command, ids, limits, capabilities. */
int process_plan(
	const json_t *process, const json_t *linux_, struct plan *p, struct mlr_error *err);

/* process.c: set HOME from the root's /etc/passwd if "env" does not, as runc does. */
void process_home(const char *rootfs, struct plan *p);

/* mounts.c: "mounts" in their order, then /dev's nodes and links, unless /dev is a bind mount.
 * dir: relative sources start there. The namespaces are in the plan already. */
int mounts_plan(const json_t *mounts, const char *dir, struct plan *p, struct mlr_error *err);

/* mounts.c: "linux.devices", by the host's nodes. */
int mounts_devices(const json_t *devices, struct plan *p, struct mlr_error *err);

/* paths.c: "linux.maskedPaths" and "linux.readonlyPaths"; what does not exist is left out. Call
 * them when the mounts are in the plan. */
int paths_mask(const struct strv *paths, struct plan *p, struct mlr_error *err);
int paths_seal(const struct strv *paths, struct plan *p, struct mlr_error *err);

#endif
