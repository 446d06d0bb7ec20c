/*
 * oci: parses and prints the formats of the Open Container Initiative - image names, digests,
 * platforms, manifests, configurations. Does no I/O.
 *
 * This header parses image references as Docker writes them, [docker://]name[:tag][@digest]
 * (github.com/distribution/reference, reference.go: the grammar; normalize.go: the defaults).
 */
#pragma once

#include "base/base.h"

struct oci_ref {
	char *registry;   /* "docker.io", "127.0.0.1:5000", "[::1]:5000"; never NULL */
	char *repository; /* "library/debian"; never NULL */
	char *tag;        /* "latest" by default; NULL only if there is a digest and no tag */
	char *digest;     /* "sha256:<64 hex>" or NULL */
	char *short_name; /* "debian", "team/app": as written without a registry, else NULL */
};

/* Parse a reference. Returns 0, or -EINVAL saying what is wrong, where, and what is valid. */
int oci_ref_parse(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* Parse the name that an image gets here (import, tag): without a registry it is the store's own,
 * "localhost/…". */
int oci_ref_parse_local(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* If the reference was written without a registry, make it the store's own, "localhost/…". */
void oci_ref_make_local(struct oci_ref *ref);
void oci_ref_done(struct oci_ref *ref);
void oci_ref_copy(const struct oci_ref *from, struct oci_ref *ret);

/* The canonical spelling, "docker.io/library/debian:12" or "…@sha256:…", with tag and digest if
 * both are known. The store's names are made from it. To free(). */
char *oci_ref_canonical(const struct oci_ref *ref);

/* Do both texts parse, and mean the same? "debian" and "docker.io/library/debian:latest" do. */
int oci_ref_is_same(const char *a, const char *b);

/* Is the registry on a loopback address (127.0.0.0/8, ::1, localhost), with or without a port? */
int oci_ref_is_loopback(const struct oci_ref *ref);
