/*
 * Parses the image names that users write: an image in a registry (oci/ref.h), or a place on disk
 * as containers-transports(5) writes it,
 *
 *   oci:DIR[:REF]  oci-archive:FILE[:REF]  docker-archive:FILE[:REF]
 *
 * REF chooses one of several images: a name written there, or "@N", the Nth from 0. A path ends at
 * its first colon. Commands that run images also take rootfs:DIR and squashfs:FILE or sif:FILE,
 * whose path is all that follows; both are files with a squashfs image in them.
 */
#pragma once

#include "oci/ref.h"

enum oci_transport {
	OCI_REGISTRY,
	OCI_LAYOUT,
	OCI_ARCHIVE,
	OCI_DOCKER_ARCHIVE,
	OCI_DIRECTORY, /* this and the next are used in place, never stored */
	OCI_SQUASHFS,  /* or a SIF file with one: the contents decide */
	OCI_ANY_FILE,  /* never written: the file's contents decide */
	OCI_SIF,       /* a prefix only: another word for OCI_SQUASHFS */
};

struct oci_name {
	enum oci_transport transport;
	struct oci_ref ref; /* OCI_REGISTRY */
	char *path, *which; /* other transports: never NULL; REF or NULL */
};

#define OCI_NAME_INIT                           \
	{                                       \
		OCI_REGISTRY, { 0 }, NULL, NULL \
	}

/* Does the text end like an image file, in ".tar", ".sif", ".sqsh" or the like? Names may, too. */
int oci_name_ends_as_file(const char *text);

/* The same, for a file that is used in place: ".sif", ".simg", ".sqsh" and the like. */
int oci_name_ends_as_root(const char *text);

/* Is the text no image's name, but a path: "/x", "./x", "../x", "~/x"? */
int oci_name_is_path(const char *text);

/* Fail for a path where a name is expected, and hint at what to write. Returns -EINVAL. */
int oci_name_refuse_path(const char *text, struct mlr_error *err);

/* Parse a name. Returns 0, or -EINVAL saying what is wrong and what is valid. */
int oci_name_parse(const char *text, struct oci_name *ret, struct mlr_error *err);

/* Fail for a place on disk, where a stranger's file may name images only. Returns -EPERM. */
int oci_name_refuse_place(const char *text, struct mlr_error *err);

/* Parse only places on disk: text without such a prefix leaves *ret unchanged, OCI_NAME_INIT. */
int oci_place_parse(const char *text, struct oci_name *ret, struct mlr_error *err);

void oci_name_done(struct oci_name *n);

/* "docker.io/library/debian:12", "oci:DIR:REF", a bare path. To free(). */
char *oci_name_print(const struct oci_name *n);

/* "oci:", "docker-archive:"; "" for a registry. */
const char *oci_transport_prefix(enum oci_transport t);

/* The transport whose prefix the text begins with, OCI_REGISTRY if none. rest, which may be NULL,
 * gets the text after the prefix. */
enum oci_transport oci_transport_of(const char *text, const char **rest);

/* Is it a root used in place, OCI_DIRECTORY or OCI_SQUASHFS? */
int oci_transport_is_root(enum oci_transport t);

/*
 * Make the name that an image from disk gets in the store.
 *
 *   path  the image's; its last part is the name if there is no other
 *   said  its name there: index.json's annotation or manifest.json's RepoTags; or NULL
 *
 * A full reference is kept, without its digest. One without a registry is Docker Hub's in a
 * docker-archive, where Docker writes its own names so, and "localhost/…" elsewhere. A bare word is
 * a tag: "localhost/<last part of path>:<word>", as podman does. Never fails.
 */
void oci_name_stored(enum oci_transport t, const char *path, const char *said, struct oci_ref *ret);
