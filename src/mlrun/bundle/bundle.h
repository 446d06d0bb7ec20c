/*
 * bundle: runs OCI bundles - a directory with a root file system and a config.json - as the OCI
 * runtime specification says: create, start, state, kill, delete. `mlrun oci` is its command line.
 *
 * This header: reads config.json (runtime-spec, config.md and config-linux.md).
 */
#pragma once

#include "plan/plan.h"

#include <jansson.h>

/* config.json may have so many bytes. */
#define BUNDLE_CONFIG_MAX (16u << 20)

/* When a hook runs, in this order. */
enum bundle_stage {
	BUNDLE_PRESTART,
	BUNDLE_CREATE_RUNTIME,
	BUNDLE_CREATE_CONTAINER,
	BUNDLE_START_CONTAINER,
	BUNDLE_POSTSTART,
	BUNDLE_POSTSTOP,
	BUNDLE_STAGES
};

/* The member of "hooks", "createRuntime". */
const char *bundle_stage_name(enum bundle_stage stage);

struct bundle_hook {
	char *path;            /* absolute */
	struct strv args, env; /* args empty: the path alone */
	int timeout;           /* seconds; 0: none */
};

struct bundle_hooks {
	struct bundle_hook *v;
	size_t n;
};

/* config.json; a plan is made of the second half. */
struct bundle {
	char *version;           /* ociVersion */
	struct strv annotations; /* keys and values alternate */
	struct bundle_hooks hooks[BUNDLE_STAGES];
	char *domainname;    /* or NULL */
	struct strv joined;  /* types and paths of namespaces that are there already */
	struct strv sysctls; /* key, value, and "joined" if it is of such a namespace */
	char *seccomp;       /* linux.seccomp as JSON text, or NULL */
	int terminal, rows, columns;
	int is_32_bit;                        /* linux.personality is LINUX32 */
	int has_other_ids;                    /* uidMappings map some that are not the caller's */
	int umask;                            /* or -1 */
	int has_oom_score_adj, oom_score_adj; /* proc_pid_oom_score_adj(5) */

	json_t *document;
	struct strv args, env;
	char *cwd; /* NULL: there is no "process" */
	unsigned uid, gid;
	struct bundle_limit *limits; /* this and the next: bundle/parts.h */
	struct bundle_mount *mounts;
	struct bundle_map *uids, *gids;
	struct bundle_namespace *namespaces;
	struct bundle_device *devices;
	size_t n_limits, n_mounts, n_uids, n_gids, n_namespaces, n_devices;
	struct plan_capabilities caps;
	char *root;
	int is_readonly;
	char *hostname;
	struct strv settings; /* of "sysctl": keys and values alternate */
	struct strv masked, sealed;
	const json_t *resources;
};

#define BUNDLE_INIT                                 \
	{                                           \
		.umask = -1, .oom_score_adj = -1001 \
	}
void bundle_done(struct bundle *b);

/* Parse config.json. Returns 0; -EPROTO; -ENOTSUP for another major version. */
int bundle_parse(const char *text, size_t len, struct bundle *ret, struct mlr_error *err);

/*
 * Turn it into a plan. Looks at files of the host, and changes nothing.
 *
 *   dir  the bundle's directory, absolute
 *   b    gets joined, sysctls and has_other_ids, which depend on the caller; the command is taken
 *        from it
 *
 * Returns 0; -EPROTO for a malformed document; -ENOTSUP for what a container without root cannot
 * have; -ENOENT for a missing root or device.
 */
int bundle_plan(struct bundle *b, const char *dir, struct plan *p, struct mlr_error *err);
