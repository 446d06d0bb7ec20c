/*
 * Named containers: what was written in an image's container and is kept (exec --write=NAME), as the
 * upper layer of an overlay.
 *
 *   containers/<name>/upper, work    the overlay's; work is emptied before each mount
 *   containers/<name>/container.json {"image": canonical name, "manifest": digest, "created": seconds,
 *                                     "used": seconds}; published last, so one without it is a leftover
 *
 * One node at a time may use a container (an overlay's upper layer has one master): a hold of
 * store/hold.h names who does. Processes of that node share its namespaces.
 */
#ifndef MLR_STORE_CONTAINER_H
#define MLR_STORE_CONTAINER_H

#include "base/error.h"
#include "store/store.h"

#include <stdint.h>

struct store_container {
	char *name, *image, *manifest;
	int64_t created, used; /* seconds since the epoch */
};

#define STORE_CONTAINER_INIT { 0 }
void store_container_done(struct store_container *c);

/* A name: [a-zA-Z0-9][a-zA-Z0-9_.-]*, at most 128 bytes, as Docker's. Returns 0 or -EINVAL. */
int store_container_name_check(const char *name, struct mlr_error *err);

/*
 * Find a container or make it, for use by this process: another node's use is -EBUSY, another
 * manifest than the container's own is -EEXIST, both with the way out. The hold is this process's and
 * ends with it.
 *
 *   ret   its record; path of its directory by store_container_path()
 */
int store_container_open(struct store *st, const char *name, const char *image,
	const char *manifest, struct store_container *ret, struct mlr_error *err);

/* Its record alone. -ENOENT. */
int store_container_get(
	struct store *st, const char *name, struct store_container *ret, struct mlr_error *err);

/* The absolute path of its directory, to free(). */
char *store_container_path(const struct store *st, const char *name);

/* Call for each container, in the order of names. */
int store_container_each(struct store *st,
	int (*each)(void *data, const struct store_container *c, int in_use), void *data,
	struct mlr_error *err);

/* Remove it: renamed away first. -ENOENT; -EBUSY while somebody uses it. */
int store_container_remove(struct store *st, const char *name, struct mlr_error *err);

#endif
