/*
 * registry: speaks the OCI distribution protocol (github.com/opencontainers/distribution-spec,
 * spec.md, "Pull"): tokens, manifests, blob streams. Never sees the store.
 *
 * Scheme: https, certificates checked. A registry on a loopback address is asked in plain HTTP
 * first and by https when it does not speak that. Without tls_verify (or with insecure = true in
 * mlrun.conf), https without checks comes first and plain HTTP when there is no TLS. What worked
 * first is kept. Certificates: SSL_CERT_FILE, mlrun.conf, registry/certs.h.
 *
 * Trust: redirects and token servers must be https (between loopback addresses http will do);
 * passwords and tokens never go to another host than the registry, but passwords to token servers
 * of its site (registry/auth.h). Proxies are libcurl's environment variables, but loopback
 * addresses are always reached directly.
 *
 * Failures that may pass (429, 5xx, broken and stalled connections) are tried again with growing
 * delays, Retry-After honoured; a blob goes on at the byte it had reached. Mirrors that mlrun.conf
 * names are asked first and passed over when they fail.
 *
 * Any thread may call.
 */
#ifndef MLR_REGISTRY_REGISTRY_H
#define MLR_REGISTRY_REGISTRY_H

#include "base/config.h"
#include "base/error.h"
#include "base/strv.h"
#include "oci/digest.h"
#include "oci/ref.h"

#include <stddef.h>
#include <stdint.h>

struct registry_options {
	int tls_verify;       /* 1: as above; 0: no certificate is checked and plain HTTP will do */
	const char *authfile; /* --authfile: whose credentials alone count; NULL: as
			       * registry/credential.h says. Borrowed */
	const struct config *config; /* mlrun.conf, or NULL. Borrowed */

	/* Asked often, from any thread: not 0 ends every call with -ECANCELED. May be NULL. */
	int (*cancelled)(void *ctx);
	void *cancelled_ctx;

	/* Told before a wait of some seconds, from any thread. May be NULL. */
	void (*notice)(void *ctx, const char *words);
	void *notice_ctx;
};

struct registry; /* one repository on one registry */

/* No connection is made yet. docker.io is reached as registry-1.docker.io. */
struct registry *registry_new(const struct oci_ref *ref, const struct registry_options *opt);
void registry_free(struct registry *r);

struct registry_document {
	char *data; /* len bytes and a NUL */
	size_t len;
	char *content_type;           /* or NULL */
	char digest[OCI_DIGEST_SIZE]; /* of the bytes, computed */
};

#define REGISTRY_DOCUMENT_INIT \
	{                      \
		0              \
	}

void registry_document_done(struct registry_document *d);

/*
 * The digest that a tag stands for, by HEAD.
 *
 *   digest  "" when the registry does not say
 *
 * Returns 0; -ENOENT, -EACCES (wrong name or private), -EBUSY (429 for too long), or the network's
 * errors: -EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET, -EPERM (certificate), -EPROTO.
 */
int registry_manifest_head(
	struct registry *r, const char *tag, char digest[OCI_DIGEST_SIZE], struct mlr_error *err);

/*
 * A manifest or index by tag or digest, at most OCI_DOCUMENT_MAX bytes. Asked for by digest, the
 * bytes have it. Returns as above, and -EBADMSG, -EFBIG.
 */
int registry_manifest_get(struct registry *r, const char *reference, struct registry_document *ret,
	struct mlr_error *err);

/* A blob of at most OCI_DOCUMENT_MAX bytes, checked as below. */
int registry_blob_get(
	struct registry *r, const char *digest, uint64_t size, char **ret, struct mlr_error *err);

/* Takes the next bytes; may block. Returns 0, or -errno with err set to end the stream with it. */
typedef int (*registry_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/*
 * A blob, piece by piece, in bounded memory. The sink sees bytes before they are checked: only a
 * result of 0 says that exactly `size` bytes came and that they hash to `digest`.
 *
 * Returns 0; -EBADMSG for other bytes or another length; the sink's error; errors as above.
 */
int registry_blob_stream(struct registry *r, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err);

/*
 * The same where an earlier process has brought the beginning.
 *
 *   head  open for reading; what is in it (at most `size` bytes are looked at) comes first to hash
 *         and sink, and only the rest is asked for
 */
int registry_blob_resume(struct registry *r, const char *digest, uint64_t size, int head,
	registry_sink_fn sink, void *ctx, struct mlr_error *err);

/*
 * After bytes that were not those named: drop the mirrors that have served any. Returns how many
 * mirrors have: so often another attempt may find other bytes.
 */
int registry_distrust(struct registry *r);

/* All tags of the repository, from the registry itself, as it orders them. Returns as above. */
int registry_tags(struct registry *r, struct strv *ret, struct mlr_error *err);

/*
 * Are a user name and a password good there? The reference's repository is to be "".
 *
 *   asked  0 when the registry asked for neither: then nothing is known
 *
 * Returns 0; -EACCES when they are not; errors as above.
 */
int registry_login(struct registry *r, const char *user, const char *password, int *asked,
	struct mlr_error *err);

static inline void registry_cleanup(struct registry **r)
{
	registry_free(*r);
}
#define auto_registry __attribute__((cleanup(registry_cleanup)))

#endif
