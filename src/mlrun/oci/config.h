/*
 * Parses image configurations (OCI image-spec, config.md; Docker's image.json is the same
 * document).
 */
#pragma once

#include "base/base.h"

/* Where commands are searched if a configuration has no PATH, as Docker does. */
#define OCI_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct oci_config {
	char *os, *architecture, *variant; /* os, architecture never NULL; variant may be */
	char *created;                     /* RFC 3339 or NULL */
	char *user, *working_dir;          /* NULL if the image sets none */
	struct strv env;                   /* "KEY=VALUE" */
	struct strv entrypoint, cmd;
	struct strv labels;   /* keys and values alternate */
	struct strv diff_ids; /* "sha256:…", lowest layer first, each checked */
};

/* Parse a configuration document of len bytes. Returns 0, -EPROTO for a malformed document,
 * -ENOTSUP for a rootfs type other than "layers" or an unsupported digest algorithm. */
int oci_config_parse(const char *json, size_t len, struct oci_config *ret, struct mlr_error *err);
void oci_config_done(struct oci_config *c);

/* Read and print the document's key "config" alone, env to labels, as SIF files have it. After a
 * failure ret may have a part of it. What is printed is to free(). */
int oci_config_read_run(
	const char *json, size_t len, struct oci_config *ret, struct mlr_error *err);
char *oci_config_print_run(const struct oci_config *c);
