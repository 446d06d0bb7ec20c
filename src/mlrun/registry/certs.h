/*
 * Whose certificates are good for a registry, and which are ours: from mlrun.conf (ca, client_cert,
 * client_key), and from the directories of podman and Docker (containers-certs.d(5)), of which the
 * first that is there counts:
 *
 *   ~/.config/containers/certs.d/HOST[:PORT]/   /etc/containers/certs.d/…   /etc/docker/certs.d/…
 *
 * There *.crt are CA certificates, NAME.cert and NAME.key are what the registry knows us by.
 */
#ifndef MLR_REGISTRY_CERTS_H
#define MLR_REGISTRY_CERTS_H

#include "base/config.h"
#include "base/error.h"

struct certs {
	char *ca;                       /* PEM of all CA certificates together, or NULL */
	char *client_cert, *client_key; /* files, or NULL */
	char *user_dir;                 /* where the user may put more, for messages; or NULL */
};

#define CERTS_INIT                     \
	{                              \
		NULL, NULL, NULL, NULL \
	}

/*
 *   host    "quay.io", "registry.lab:5000"
 *   config  may be NULL
 *
 * Returns 0, or -errno for files that are named or there and cannot be read, or lack their other
 * half.
 */
int certs_load(
	const char *host, const struct config *config, struct certs *ret, struct mlr_error *err);
void certs_done(struct certs *c);

#endif
