/* Reads RUN --mount (Dockerfile reference, "RUN --mount"). */
#pragma once

#include "base/reach.h"
#include "recipe/expand.h"

enum run_mount_type {
	RUN_MOUNT_BIND,
	RUN_MOUNT_CACHE,
	RUN_MOUNT_TMPFS,
	RUN_MOUNT_SECRET,
	RUN_MOUNT_SSH,
	RUN_MOUNT_TYPES
};
enum run_mount_sharing {
	RUN_MOUNT_SHARED,
	RUN_MOUNT_PRIVATE,
	RUN_MOUNT_LOCKED,
	RUN_MOUNT_SHARINGS
};

struct run_mount {
	enum run_mount_type type;
	char *from;   /* a stage, an image or a build context; NULL: the build context */
	char *source; /* in there; NULL: its root */
	char *target; /* NULL: a secret's or a socket's default place, or none */
	char *id;     /* NULL: a cache's is its target */
	char *env;    /* the variable that gets a secret; NULL: none */
	int read_only, required;
	enum run_mount_sharing sharing;
	int64_t mode, uid, gid; /* -1: the type's default */
	uint64_t size;          /* of a tmpfs, in bytes; 0: unlimited */
};

#define RUN_MOUNT_INIT                                                                            \
	{                                                                                         \
		RUN_MOUNT_BIND, NULL, NULL, NULL, NULL, NULL, 0, 0, RUN_MOUNT_SHARED, -1, -1, -1, \
			0                                                                         \
	}
void run_mount_done(struct run_mount *m);

/*
 * Parse "type=cache,target=/root/.cache,…".
 *
 *   e  expands variables in the values; NULL: values that have variables are not checked
 *
 * Returns 0; -EINVAL with the key at fault.
 */
int run_mount_parse(
	const char *text, const struct expand *e, struct run_mount *ret, struct mlr_error *err);

/* List the types, and the keys of each. */
void run_mount_each_reach(reach_fn fn, void *ctx);
