/*
 * Named containers: what was written in an image's container and is kept (exec --write=NAME), as
 * the upper layer of an overlay.
 *
 *   containers/<name>/container.json {"image": canonical name, "manifest": digest, "created":
 *                                     seconds}; its time of modification is the last use
 *   containers/<name>/upper, work    the overlay's, made by the first that mounts it
 *
 * It appears whole, by the rename of a directory of tmp/, and goes whole. What its image consists
 * of stays in the store as long as the container does, with or without a name.
 *
 * One node at a time may use a container (an overlay's upper layer has one master): whoever does
 * has a lease (store/lease.h), which he takes before he looks for the container, while a remover
 * takes the container away before he looks for leases. Processes of one node share its namespaces.
 */
#ifndef MLR_STORE_CONTAINER_H
#define MLR_STORE_CONTAINER_H

#include "base/error.h"
#include "base/strv.h"
#include "store/lease.h"
#include "store/store.h"

#include <stdint.h>

#define STORE_CONTAINER_NAME_MAX 128

struct store_container {
	char *name, *image, *manifest;
	int64_t created, used; /* seconds since the epoch */
};

#define STORE_CONTAINER_INIT \
	{                    \
		0            \
	}
void store_container_done(struct store_container *c);

/* A name: [a-zA-Z0-9][a-zA-Z0-9_.-]*, at most STORE_CONTAINER_NAME_MAX bytes, as Docker's. Returns
 * 0 or -EINVAL. */
int store_container_name_check(const char *name, struct mlr_error *err);

/*
 * Find a container or make it, for use by this process and what it becomes by execve.
 *
 *   image, manifest  what it is made of when it is not there; else they do not count. NULL: only
 *                    find it
 *   made             gets 1 when it was made now, else 0
 *
 * Returns 0; -ENOENT when it is only to be found; -EBUSY while another node uses it, or may;
 * -ENOSPC and the like, each with the way out.
 */
int store_container_open(struct store *st, const char *name, const char *image,
	const char *manifest, struct store_container *ret, int *made, struct mlr_error *err);

/* Its record alone. Returns 0, -ENOENT with the way out, -EPROTO for a damaged one. */
int store_container_get(
	struct store *st, const char *name, struct store_container *ret, struct mlr_error *err);

/* The absolute path of its directory, to free(). */
char *store_container_path(const struct store *st, const char *name);

/* Returns 1 and one process that uses it, one seen running if there is, else 0. */
int store_container_used(struct store *st, const char *name, struct store_lease *ret);

/* Does a process of this host other than the caller use it? */
int store_container_is_joined(struct store *st, const char *name);

/* Every container's name, sorted; none where there never was one. */
int store_container_names(struct store *st, struct strv *ret, struct mlr_error *err);

/* The name of a container that is made of an image's manifest, to free(); NULL for none. One whose
 * record is damaged may be made of any. */
char *store_container_of(struct store *st, const char *manifest);

/*
 * Remove it: renamed away first.
 *
 *   force  in spite of processes of other hosts or PID namespaces, of which nobody here can see
 *          whether they still run; never of one that runs
 *
 * Returns 0; -ENOENT; -EBUSY naming the process that uses it, or may.
 */
int store_container_remove(struct store *st, const char *name, int force, struct mlr_error *err);

/* Forget the processes that nobody here can see. Returns as above. */
int store_container_unlock(struct store *st, const char *name, struct mlr_error *err);

#endif
