/*
 * Named containers (exec --write=NAME): the upper layer of an overlay, kept in the store.
 *
 *   containers/<name>/container.json {"image": canonical name, "manifest": digest, "created":
 *                                     seconds, "job": its job's name or null, "step": the
 *                                     word of those who made it or null}; its time of modification
 *                                     is the last use
 *   containers/<name>/upper, work    the overlay's, made by the first process that mounts it
 *   containers/<name>/saved          its time of modification is when its state was last saved
 *
 * A container appears and disappears whole, by a rename to or from tmp/. Its image's files stay in
 * the store as long as it does, with or without a name.
 *
 * One node at a time may use a container, since only one kernel may mount an upper layer. A user
 * takes a lease (store/lease.h) before it looks for the container; a remover moves the container
 * away before it looks for leases. Processes of one node share its namespaces.
 */
#pragma once

#include "store/lease.h"

#define STORE_CONTAINER_NAME_MAX 220

struct store_container {
	char *name, *image, *manifest;
	char *job;             /* it ends with this job, job_name()'s; or NULL */
	char *step;            /* job_step()'s of the processes that made it; or NULL */
	int64_t created, used; /* seconds since the epoch */
};

void store_container_done(struct store_container *c);

/* Check a container's name: [a-zA-Z0-9][a-zA-Z0-9_.-]*, at most STORE_CONTAINER_NAME_MAX bytes, as
 * Docker does. Returns 0 or -EINVAL. */
int store_container_name_check(const char *name, struct mlr_error *err);

/*
 * Find a container or make it, for use by this process and the programs it executes.
 *
 *   new   what a container is to be made of: image, manifest, job, step; ignored if it exists.
 *         NULL: make none
 *   made  gets 1 if it was made now, else 0
 *
 * Returns 0; -ENOENT without a container and an image; -EBUSY while another node uses it, or may;
 * -ENOSPC and the like. Errors have hints.
 */
int store_container_open(struct store *st, const char *name, const struct store_container *new,
	struct store_container *ret, int *made, struct mlr_error *err);

/* This process no longer uses the container. */
void store_container_leave(struct store *st, const char *name);

/* Read a container's record. Returns 0, -ENOENT with a hint, or -EPROTO for a damaged one. */
int store_container_get(
	struct store *st, const char *name, struct store_container *ret, struct mlr_error *err);

/* The absolute path of a container's directory, to free(). */
char *store_container_path(const struct store *st, const char *name);

/* Returns 1 and one process that uses it, if possible one that is seen running; else 0. */
int store_container_used(struct store *st, const char *name, struct store_lease *ret);

/* Does a process of this host other than the caller use it? */
int store_container_is_joined(struct store *st, const char *name);

/*
 * For a process whose command in the container has ended: is it the one to save the container's
 * state? Waits while another saves it.
 *
 *   ended  when the command ended, CLOCK_REALTIME
 *   lock   gets a descriptor that keeps others from saving until it is closed
 *
 * Returns 1; 0 if a process of this host is in the container, and will save it, or if another has
 * begun to save it after that time; -errno.
 */
int store_container_save(struct store *st, const char *name, const struct timespec *ended,
	int *lock, struct mlr_error *err);

/* Every container's name, sorted. */
int store_container_names(struct store *st, struct strv *ret, struct mlr_error *err);

/* The name of a container made of this manifest, to free(), or NULL. One with a damaged record
 * counts, since it may be made of any. */
char *store_container_of(struct store *st, const char *manifest);

/*
 * Remove a container.
 *
 *   force  ignore processes of other hosts or PID namespaces, which cannot be checked from here;
 *          still refuse if one is seen running
 *
 * Returns 0; -ENOENT; -EBUSY naming the process that uses it, or may.
 */
int store_container_remove(struct store *st, const char *name, int force, struct mlr_error *err);

/* Remove the containers whose job has ended, as far as that is known (job_is_alive()). Making a new
 * container does so, too. */
void store_container_sweep(struct store *st);

/* Delete the leases of processes that cannot be seen from here. Returns as above. */
int store_container_unlock(struct store *st, const char *name, struct mlr_error *err);
