/*
 * oci: the words of the Open Container Initiative - image names, digests, platforms, manifests,
 * configurations. Parses and prints; does no I/O.
 *
 * This header: image references as Docker writes them, [docker://]name[:tag][@digest]
 * (github.com/distribution/reference, reference.go: the grammar; normalize.go: the defaults).
 */
#ifndef MLR_OCI_REF_H
#define MLR_OCI_REF_H

#include "base/error.h"

struct oci_ref {
	char *registry;   /* "docker.io", "127.0.0.1:5000", "[::1]:5000"; never NULL */
	char *repository; /* "library/debian"; never NULL */
	char *tag;    /* NULL only when a digest stands alone; "latest" when neither was given */
	char *digest; /* "sha256:<64 hex>" or NULL */
	char *short_name; /* "debian", "team/app": as written where no registry was, else NULL */
};

#define OCI_REF_INIT                         \
	{                                    \
		NULL, NULL, NULL, NULL, NULL \
	}

/* Returns 0, or -EINVAL with what is wrong, where, and what a right name looks like. */
int oci_ref_parse(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* The same for what gets a name here and now (import, tag): a name without a registry is the
 * store's own, "localhost/…". */
int oci_ref_parse_local(const char *text, struct oci_ref *ret, struct mlr_error *err);

/* Where no registry was written, make the reference that of the store's own image,
 * "localhost/…". */
void oci_ref_make_local(struct oci_ref *ref);
void oci_ref_done(struct oci_ref *ref);
void oci_ref_copy(const struct oci_ref *from, struct oci_ref *ret);

/* The one spelling of a name, "docker.io/library/debian:12" or "…@sha256:…" (tag and digest both
 * when both are known); what the store's names are made of. To free(). */
char *oci_ref_canonical(const struct oci_ref *ref);

/* Do both texts parse, and mean the same? "debian" and "docker.io/library/debian:latest" do. */
int oci_ref_is_same(const char *a, const char *b);

/* Is the registry on a loopback address (127.0.0.0/8, ::1, localhost), with or without a port? */
int oci_ref_is_loopback(const struct oci_ref *ref);

#endif
