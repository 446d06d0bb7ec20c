/*
 * Makes a configuration from another: adds a layer and applies changes written as Dockerfile
 * instructions (docs.docker.com, Dockerfile reference; docker-container-commit(1), --change).
 */
#ifndef MLR_OCI_DERIVE_H
#define MLR_OCI_DERIVE_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

struct oci_derive {
	const char *diff_id;    /* of the new layer; NULL: adds none */
	const char *created;    /* RFC 3339 */
	const char *created_by; /* for the history */
	const char *author;     /* NULL: unchanged */
	const char *comment;    /* for the history, or NULL */
	const struct strv *changes;
};

/*
 * Make a new configuration.
 *
 *   json  the original configuration, len bytes
 *   ret   the new one, a string to free()
 *
 * Changes are applied in order: ENV K=V… or ENV K V, LABEL alike, CMD and ENTRYPOINT as a JSON
 * array or a line for the image's Shell, else /bin/sh -c, WORKDIR, USER, EXPOSE, VOLUME,
 * HEALTHCHECK, STOPSIGNAL, SHELL, ONBUILD. ONBUILD, HEALTHCHECK and SHELL set members that Docker
 * has and OCI lacks. As in a Dockerfile, ENTRYPOINT drops the image's Cmd unless the changes set
 * CMD, too.
 *
 * Returns 0; -EINVAL naming an invalid change; oci_config_parse()'s errors.
 */
int oci_derive_config(const char *json, size_t len, const struct oci_derive *d, char **ret,
	struct mlr_error *err);

#endif
