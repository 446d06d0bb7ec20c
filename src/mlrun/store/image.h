/* Image names: which manifest a reference stands for in this store. */
#pragma once

#include "oci/name.h"
#include "store/store.h"

struct store_image {
	char *name;     /* canonical reference */
	char *manifest; /* "sha256:…" of the platform's manifest: the key of facts and trees */
	char *index;    /* "sha256:…" of the index it was chosen from, or NULL */
	char *platform; /* "linux/amd64", "linux/arm64/v8" */
	uint64_t size;  /* compressed bytes of all layers, from the manifest */
	int64_t pulled; /* seconds since 1970 */
	char *source;   /* "oci:/work/dir:1.0": files; "container:NAME": mlrun commit; NULL: a
			   registry */
};

void store_image_done(struct store_image *im);

/* Find an image by its reference. A reference with a digest also finds an image of that repository
 * with this manifest or index, and "sha256:<hex>" one with this manifest that may have no name; it
 * is its name then. A name without a registry is first looked up as the store's own
 * ("localhost/…"). Returns 0 or -ENOENT. */
int store_image_find(struct store *st, const struct oci_ref *ref, struct store_image *ret,
	struct mlr_error *err);

/* Find an image by any name that a user may write; one from files by their path. */
int store_image_find_name(struct store *st, const struct oci_name *name, struct store_image *ret,
	struct mlr_error *err);

/* The source of an image of this name: "oci:/absolute/path:REF", or NULL for a registry's name and
 * for standard input. To free(). */
char *store_image_source(const struct oci_name *name);

#define STORE_IMAGE_PATH 96

/* The path of an image's file, "images/<sha256 of the canonical name>.json". */
void store_image_path(const char *name, char path[STORE_IMAGE_PATH]);

/* Read one file "images/<hex>.json". Returns 0, -ENOENT, or -EPROTO for a damaged file. */
int store_image_load(
	struct store *st, const char *path, struct store_image *ret, struct mlr_error *err);

/* Check that an image's facts and every tree that they name exist. Returns 0, or -ENOENT naming
 * what is missing. */
int store_image_check(struct store *st, const struct store_image *im, struct mlr_error *err);

/* Make or replace a name. Facts, blobs and trees of its manifest must already exist. */
int store_image_put(struct store *st, const struct store_image *im, struct mlr_error *err);

/* The manifest that an image's name stands for now, if it is another one; else NULL. To free(). */
char *store_image_other(struct store *st, const struct store_image *im);

/* Every image, sorted by name: *ret is an array of *n, for store_images_free(). */
int store_image_list(struct store *st, struct store_image **ret, size_t *n, struct mlr_error *err);
void store_images_free(struct store_image *v, size_t n);

enum store_remove_how { STORE_REMOVE_UNUSED, STORE_REMOVE_FORCE, STORE_REMOVE_DEFER };

/*
 * Remove a name, and then the manifest, configuration, facts and trees that no other name needs.
 * Images that lost their name to a newer one go, too, unless a process or a container uses them.
 * Files are first renamed away, so no process sees half a tree.
 *
 *   how  STORE_REMOVE_UNUSED: refuse an image in use.
 *        STORE_REMOVE_FORCE: ignore processes of other hosts or PID namespaces, which cannot be
 *        checked from here; still refuse if a process runs here.
 *        STORE_REMOVE_DEFER: of an image in use remove only the name; the next rm or prune after
 *        its last process removes the files
 *   ret  the removed image, for store_image_done(); may be NULL
 *
 * Waits for other removers. What running pulls rely on stays.
 *
 * Returns 0; 1 if files were left for later; -ENOENT; or -EBUSY naming the process or container
 * that uses the image.
 */
int store_image_remove(struct store *st, const struct oci_ref *ref, enum store_remove_how how,
	struct store_image *ret, struct mlr_error *err);
