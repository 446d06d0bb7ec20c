/*
 * The CA certificates to trust for a registry and our client certificate: from mlrun.conf (ca,
 * client_cert, client_key) and the directories of podman and Docker (containers-certs.d(5)), of
 * which the first that exists counts:
 *
 *   ~/.config/containers/certs.d/HOST[:PORT]/   /etc/containers/certs.d/…   /etc/docker/certs.d/…
 *
 * In them, *.crt are CA certificates; NAME.cert and NAME.key are a client certificate and its key.
 */
#ifndef MLR_REGISTRY_CERTS_H
#define MLR_REGISTRY_CERTS_H

#include "base/config.h"
#include "base/error.h"

struct certs {
	char *ca;                       /* all CA certificates together as PEM, or NULL */
	char *client_cert, *client_key; /* files, or NULL */
	char *user_dir; /* where the user may add certificates, for messages; or NULL */
};

#define CERTS_INIT                     \
	{                              \
		NULL, NULL, NULL, NULL \
	}

/*
 * Load the certificates.
 *
 *   host    "quay.io", "registry.lab:5000"
 *   config  may be NULL
 *
 * Returns 0, or -errno if a file is missing, unreadable, or lacks its certificate or key.
 */
int certs_load(
	const char *host, const struct config *config, struct certs *ret, struct mlr_error *err);
void certs_done(struct certs *c);

#endif
