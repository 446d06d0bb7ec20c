/*
 * One CDI file, read strictly (github.com/cncf-tags/container-device-interface, SPEC.md and
 * specs-go/config.go, versions 0.3.0 to 1.1.0). Its bytes may be anything.
 */
#ifndef MLR_CDI_SPEC_H
#define MLR_CDI_SPEC_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>
#include <stdint.h>

#define GPU_CDI_FILE_MAX (4u << 20) /* bytes */

/* Texts are NULL and numbers -1 where the file says nothing; lists are empty. */
struct cdi_node {
	char *path;      /* inside */
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
	struct strv net_devices; /* their names on the host */
	int has_rdt;             /* intelRdt */
};

struct cdi_device {
	char *name; /* "0" */
	struct cdi_edits edits;
};

struct cdi_spec {
	char *file;   /* where it was read, for messages */
	int priority; /* of its directory: the greater wins */
	char *version, *kind;
	struct cdi_device *devices;
	size_t n_devices;
	struct cdi_edits edits; /* made when any of the devices is asked for */
	unsigned needs;         /* the place in the list of versions that what it says needs */
};

#define GPU_CDI_SPEC_INIT \
	{                 \
		0         \
	}

void cdi_spec_done(struct cdi_spec *s);

/* May it be the name of a kind, "nvidia.com/gpu", or of a device, "0", "GPU-…", "0:1"? len bytes of
 * text. */
int cdi_is_kind(const char *text, size_t len);
int cdi_is_device(const char *text);

/*
 * Read a file's text, JSON or YAML, whichever it is. Keys are found whatever the size of their
 * letters, as Go does; one that is not known is an error, as is a field that came later than the
 * version which the file says.
 *
 * Returns 0; -EPROTO naming device and key; -EFBIG; -ENOTSUP for a version that is not known.
 */
int cdi_spec_parse(const char *text, size_t size, struct cdi_spec *ret, struct mlr_error *err);

#endif
