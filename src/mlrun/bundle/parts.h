/* The parts of a bundle's plan, each in a file of its own, which bundle.c puts together. */
#pragma once

#include "bundle/bundle.h"

struct bundle_limit {
	char *type;
	rlim_t soft, hard;
};

struct bundle_map {
	int64_t inside, outside; /* negative: not given */
};

struct bundle_mount {
	char *target, *type, *source; /* target never NULL */
	struct strv options;
	const json_t *uids, *gids;
};

struct bundle_namespace {
	char *type, *path; /* type never NULL */
};

struct bundle_device {
	char *path, *type; /* path never NULL */
	int major, minor;
};

/* config.c: parse an object as Go's programs write it. */
int bundle_json(const char *text, size_t len, json_t **ret, struct mlr_error *err);

/* process.c: command, which is taken from b, ids, limits, capabilities. */
int process_plan(struct bundle *b, struct plan *p, struct mlr_error *err);

/* process.c: in the container, set HOME from /etc/passwd if "env" does not, as runc does. */
void process_home(struct plan *p);

/* resources.c: "linux.resources", for a control group. What none of the caller's can have is a
 * warning, but for limits of memory and CPU time, which runtime refuses then. */
int resources_plan(const json_t *resources, struct plan *p, struct mlr_error *err);

/* mounts.c: the mounts in their order, then /dev's nodes and links, unless /dev is a bind mount.
 * dir: relative sources start there. The namespaces are in the plan already. */
int mounts_plan(const struct bundle *b, const char *dir, struct plan *p, struct mlr_error *err);

/* mounts.c: "linux.devices", by the host's nodes. */
int mounts_devices(const struct bundle *b, struct plan *p, struct mlr_error *err);

/* paths.c: "linux.maskedPaths" and "linux.readonlyPaths"; what does not exist is left out. Call
 * them when the mounts are in the plan. */
int paths_mask(const struct strv *paths, struct plan *p, struct mlr_error *err);
int paths_seal(const struct strv *paths, struct plan *p, struct mlr_error *err);
