/*
 * A configuration made of another: one layer more, and what shall be otherwise, said in a
 * Dockerfile's words (docs.docker.com, Dockerfile reference; docker-container-commit(1), --change).
 */
#ifndef MLR_OCI_DERIVE_H
#define MLR_OCI_DERIVE_H

#include "base/error.h"
#include "base/strv.h"

#include <stddef.h>

struct oci_derive {
	const char *diff_id;    /* of the new layer; NULL: there is none */
	const char *created;    /* RFC 3339 */
	const char *created_by; /* for the history */
	const char *author;     /* NULL: as it was */
	const char *comment;    /* for the history, or NULL */
	const struct strv *changes;
};

/*
 *   json  the configuration to begin with, len bytes
 *   ret   the new one, without a final NUL counted, to free()
 *
 * Changes are done in their order: ENV K=V… or ENV K V, LABEL alike, CMD and ENTRYPOINT as a JSON
 * array or a line for the image's Shell, else /bin/sh -c, WORKDIR, USER, EXPOSE, VOLUME,
 * HEALTHCHECK, STOPSIGNAL, SHELL, ONBUILD; the last, HEALTHCHECK and SHELL become members that
 * Docker has and OCI has not. As in a Dockerfile an ENTRYPOINT drops the Cmd that the image had,
 * unless a CMD stands among the changes.
 *
 * Returns 0; -EINVAL naming the change that is none; what oci_config_parse() says of the document.
 */
int oci_derive_config(const char *json, size_t len, const struct oci_derive *d, char **ret,
	struct mlr_error *err);

#endif
