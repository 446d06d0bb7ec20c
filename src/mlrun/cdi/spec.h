/*
 * Reads one CDI file strictly (github.com/cncf-tags/container-device-interface, SPEC.md and
 * specs-go/config.go, versions 0.3.0 to 1.1.0). Its bytes are not trusted.
 */
#pragma once

#include "base/base.h"

#define GPU_CDI_FILE_MAX (4u << 20) /* bytes */

/* Members that the file does not set are NULL, -1 or an empty list. */
struct cdi_node {
	char *path;      /* in the container */
	char *host_path; /* NULL: the same */
	char *type;      /* "c", "u", "b", "p" */
	int64_t major, minor, file_mode, uid, gid;
	char *permissions;
};

struct cdi_mount {
	char *host_path, *container_path, *type;
	struct strv options;
};

struct cdi_hook {
	char *name; /* "createContainer" */
	char *path;
	struct strv args, env;
	int64_t timeout;
};

struct cdi_edits {
	struct strv env; /* "KEY=VALUE" */
	struct cdi_node *nodes;
	size_t n_nodes;
	struct cdi_mount *mounts;
	size_t n_mounts;
	struct cdi_hook *hooks;
	size_t n_hooks;
	int64_t *gids;
	size_t n_gids;
	struct strv net_devices; /* the host's names */
	int has_rdt;             /* intelRdt */
};

struct cdi_device {
	char *name; /* "0" */
	struct cdi_edits edits;
};

struct cdi_spec {
	char *file;   /* its path, for messages */
	int priority; /* of its directory: the greater wins */
	char *version, *kind;
	struct cdi_device *devices;
	size_t n_devices;
	struct cdi_edits edits; /* applied with any of the devices */
	unsigned needs;         /* index of the lowest version that has its fields */
};

void cdi_spec_done(struct cdi_spec *s);

/* Are len bytes of text a kind, "nvidia.com/gpu"; is text a device's name, "0", "GPU-…", "0:1"? */
int cdi_is_kind(const char *text, size_t len);
int cdi_is_device(const char *text);

/*
 * Parse a file's text, JSON or YAML. As in Go, keys match in upper and lower case. Unknown keys are
 * errors, and so are fields newer than the file's version.
 *
 * Returns 0; -EPROTO naming device and key; -EFBIG; -ENOTSUP for an unknown version.
 */
int cdi_spec_parse(const char *text, size_t size, struct cdi_spec *ret, struct mlr_error *err);
