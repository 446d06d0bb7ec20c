/*
 * registry: speaks the OCI distribution protocol (github.com/opencontainers/distribution-spec,
 * spec.md, "Pull" and "Push"): tokens, manifests, blob streams, uploads. Never sees the store.
 *
 * Scheme: https with checked certificates. For a registry on a loopback address, plain HTTP first
 * and then https. Without tls_verify (or with insecure = true in mlrun.conf), https without checks
 * first and then plain HTTP. The scheme that works is kept. Certificates: SSL_CERT_FILE,
 * mlrun.conf, registry/endpoint.c.
 *
 * Trust: redirects and token servers must use https (http is allowed between loopback addresses).
 * Passwords and tokens go only to the registry, passwords also to token servers of its site
 * (registry/auth.h). libcurl's environment variables set proxies; loopback addresses bypass them.
 *
 * Transient failures (429, 5xx, broken and stalled connections) are retried with growing delays or
 * after Retry-After; a blob continues at the byte it had reached. The mirrors in mlrun.conf are
 * tried first and skipped if they fail; uploads go to the registry itself.
 *
 * Thread-safe.
 */
#pragma once

#include "base/config.h"
#include "oci/digest.h"
#include "oci/ref.h"

struct registry_options {
	int tls_verify;       /* 1: as above; 0: check no certificates and allow plain HTTP */
	const char *authfile; /* --authfile: use only its credentials; NULL: as
			       * registry/credential.h says. Borrowed */
	const struct config *config; /* mlrun.conf, or NULL. Borrowed */

	/* Called often, from any thread: non-zero ends every call with -ECANCELED. May be NULL. */
	int (*cancelled)(void *ctx);
	void *cancelled_ctx;

	/* Called before a wait of some seconds, from any thread. May be NULL. */
	void (*notice)(void *ctx, const char *words);
	void *notice_ctx;
};

struct registry; /* one repository on one registry */

/* Open no connection yet. docker.io is reached as registry-1.docker.io. */
struct registry *registry_new(const struct oci_ref *ref, const struct registry_options *opt);
void registry_free(struct registry *r);

struct registry_document {
	char *data; /* len bytes and a NUL */
	size_t len;
	char *content_type;           /* or NULL */
	char digest[OCI_DIGEST_SIZE]; /* of the bytes, computed */
};

void registry_document_done(struct registry_document *d);

/*
 * Get a tag's digest, by HEAD.
 *
 *   digest  "" if the registry does not say
 *
 * Returns 0; -ENOENT, -EACCES (wrong name or private), -EBUSY (429 for too long), or a network
 * error: -EHOSTUNREACH, -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET, -EPERM (certificate), -EPROTO.
 */
int registry_manifest_head(
	struct registry *r, const char *tag, char digest[OCI_DIGEST_SIZE], struct mlr_error *err);

/*
 * Get a manifest or index by tag or digest, at most OCI_DOCUMENT_MAX bytes. If reference is a
 * digest, the bytes are checked against it. Returns as above, and -EBADMSG, -EFBIG.
 */
int registry_manifest_get(struct registry *r, const char *reference, struct registry_document *ret,
	struct mlr_error *err);

/* Get a blob of at most OCI_DOCUMENT_MAX bytes, checked as below. */
int registry_blob_get(
	struct registry *r, const char *digest, uint64_t size, char **ret, struct mlr_error *err);

/* Receives the next bytes; may block. Returns 0, or -errno with err set to end the stream. */
typedef int (*registry_sink_fn)(void *ctx, const void *buf, size_t len, struct mlr_error *err);

/*
 * Stream a blob in bounded memory. The sink gets bytes before they are checked: only a result of 0
 * means that exactly `size` bytes came and that they hash to `digest`.
 *
 * Returns 0; -EBADMSG for other bytes or another length; the sink's error; errors as above.
 */
int registry_blob_stream(struct registry *r, const char *digest, uint64_t size,
	registry_sink_fn sink, void *ctx, struct mlr_error *err);

/*
 * The same, continuing an earlier process's download.
 *
 *   head  open for reading; its contents (at most `size` bytes) go to hash and sink first, and only
 *         the rest is requested
 */
int registry_blob_resume(struct registry *r, const char *digest, uint64_t size, int head,
	registry_sink_fn sink, void *ctx, struct mlr_error *err);

/*
 * After a wrong digest, drop the mirrors that have served data. Returns their number: this many
 * more attempts may get other bytes.
 */
int registry_distrust(struct registry *r);

/* Does the repository have this blob? Asks the registry itself, by HEAD. Returns 1 or 0; errors as
 * above, but 0 for a refusal, as some registries have for new repositories. */
int registry_blob_has(struct registry *r, const char *digest, struct mlr_error *err);

/* Make a blob of another repository of this registry one of ours, without a transfer. Returns 1; 0
 * if that repository has it not or may not be read; errors as above. */
int registry_blob_mount(
	struct registry *r, const char *digest, const char *from, struct mlr_error *err);

struct registry_upload {
	const char *what;   /* for messages: "layer 2 of 5" */
	const char *digest; /* "sha256:…"; valid once read has returned 0 */
	/* Returns the number of bytes at an offset, 0 at the end, -errno with err set. May wait for
	 * bytes to be made. Offsets may go back. */
	ssize_t (*read)(void *ctx, uint64_t at, void *buf, size_t len, struct mlr_error *err);
	/* Wait until the size is known. Returns it, or -errno with err set. */
	int64_t (*size)(void *ctx, struct mlr_error *err);
	void *ctx;
};

/*
 * Upload a blob. A broken transfer goes on where the registry says that it stopped. A registry that
 * finds the request too large gets it in pieces.
 *
 * Returns 0; the source's error; -EACCES, -EROFS (a mirror), -EMSGSIZE; errors as above.
 */
int registry_blob_upload(
	struct registry *r, const struct registry_upload *u, struct mlr_error *err);

/* Upload a manifest or index, under a tag or its digest. Returns 0 and errors as above. */
int registry_manifest_put(struct registry *r, const char *reference, const char *media_type,
	const char *text, size_t len, struct mlr_error *err);

/* List all tags of the repository, from the registry itself, in its order. Returns as above. */
int registry_tags(struct registry *r, struct strv *ret, struct mlr_error *err);

/*
 * Check a user name and a password. The reference's repository must be "".
 *
 *   asked  0 if the registry asked for neither, so that they were not checked
 *
 * Returns 0; -EACCES if they are wrong; errors as above.
 */
int registry_login(struct registry *r, const char *user, const char *password, int *asked,
	struct mlr_error *err);

MLR_CLEANUP(registry_cleanup, struct registry *, registry_free);
#define auto_registry __attribute__((cleanup(registry_cleanup)))

/* Fetches a file from any server, for mlrun build's ADD. */

/*
 * GET a URL, http or https, with checked certificates, and with redirects to https. No credentials
 * are sent. What fails for the moment is tried again.
 *
 *   sink  gets the body; begins anew, at offset 0 of its own, when begin is called
 *   modified  gets the server's Last-Modified, or -1
 *
 * Returns 0; -ENOENT and -EACCES as the server says; the sink's error; the network's errors as
 * registry.h says.
 */
int registry_download(const char *url, const struct registry_options *opt,
	int (*begin)(void *ctx, struct mlr_error *err), registry_sink_fn sink, void *ctx,
	time_t *modified, struct mlr_error *err);
