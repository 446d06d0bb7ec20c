/*
 * What users write where an image is meant: the name of an image in a registry (oci/ref.h), or a
 * place on disk as containers-transports(5) writes it,
 *
 *   oci:DIR[:REF]  oci-archive:FILE[:REF]  docker-archive:FILE[:REF]
 *
 * REF, which of several images in one place, is a name written there or "@N", the Nth from 0 on.
 * A path ends at its first colon. Commands that run images also take rootfs:DIR and squashfs:FILE,
 * where all that follows is the path.
 */
#ifndef MLR_OCI_NAME_H
#define MLR_OCI_NAME_H

#include "base/error.h"
#include "oci/ref.h"

enum oci_transport {
	OCI_REGISTRY,
	OCI_LAYOUT,
	OCI_ARCHIVE,
	OCI_DOCKER_ARCHIVE,
	OCI_DIRECTORY, /* this and the next are roots as they are, and never in a store */
	OCI_SQUASHFS,
	OCI_ANY_FILE, /* never written: what is at the path says what it is */
};

struct oci_name {
	enum oci_transport transport;
	struct oci_ref ref; /* OCI_REGISTRY */
	char *path, *which; /* the others: never NULL; REF or NULL */
};

#define OCI_NAME_INIT                                  \
	{                                              \
		OCI_REGISTRY, OCI_REF_INIT, NULL, NULL \
	}

/* How an image of Apptainer's becomes one, of its path. */
#define OCI_NAME_SIF "apptainer build --sandbox DIR %s, then mlrun exec rootfs:DIR"

/* Does a word end as files do that hold images: ".tar", ".sif", ".sqsh" and their like? Names may,
 * too. */
int oci_name_ends_as_file(const char *text);

/* Refuse a path that stands where a name is expected, with what to write in its place. Returns
 * -EINVAL. */
int oci_name_refuse_path(const char *text, struct mlr_error *err);

/* Returns 0, or -EINVAL with what is wrong and what a right name looks like. */
int oci_name_parse(const char *text, struct oci_name *ret, struct mlr_error *err);

/* The same of a place on disk alone: what has no such prefix leaves *ret as it was, OCI_NAME_INIT.
 */
int oci_place_parse(const char *text, struct oci_name *ret, struct mlr_error *err);

void oci_name_done(struct oci_name *n);

/* "docker.io/library/debian:12", "oci:DIR:REF", a bare path. To free(). */
char *oci_name_print(const struct oci_name *n);

/* "oci:", "docker-archive:"; "" for a registry's. */
const char *oci_transport_prefix(enum oci_transport t);

/* The transport by whose prefix a text begins, OCI_REGISTRY if there is none. rest, which may be
 * NULL, gets what follows the prefix. */
enum oci_transport oci_transport_of(const char *text, const char **rest);

/* Does it name a root as it is, OCI_DIRECTORY or OCI_SQUASHFS? */
int oci_transport_is_root(enum oci_transport t);

/*
 * What an image from disk is called in the store.
 *
 *   path  where it lies; its last part serves when nothing else does
 *   said  its name there: index.json's annotation or manifest.json's RepoTags; NULL when there is
 * none
 *
 * A full reference stays what it is, but for a digest; one without a registry is Docker Hub's in
 * docker-archive, where Docker writes its own names so, and "localhost/…" elsewhere; a bare word is
 * a tag: "localhost/<last part of path>:<word>", as podman does. Never fails.
 */
void oci_name_stored(enum oci_transport t, const char *path, const char *said, struct oci_ref *ret);

#endif
