/*
 * Names: which manifest a reference stands for on this store.
 */
#ifndef MLR_STORE_IMAGE_H
#define MLR_STORE_IMAGE_H

#include "base/error.h"
#include "oci/name.h"
#include "oci/ref.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

struct store_image {
	char *name;     /* canonical reference */
	char *manifest; /* "sha256:…" of the platform's manifest: the key of facts and trees */
	char *index;    /* "sha256:…" of the index it was chosen from, or NULL */
	char *platform; /* "linux/amd64", "linux/arm64/v8" */
	uint64_t size;  /* compressed bytes of all layers, as the manifest says */
	int64_t pulled; /* seconds since 1970 */
	char *source;   /* "oci:/work/dir:1.0": the files it came from; "container:NAME":
			 * mlrun commit's; NULL: a registry */
};

#define STORE_IMAGE_INIT \
	{                \
		0        \
	}

void store_image_done(struct store_image *im);

/* Returns 0, -ENOENT when the store has no such name. A reference with a digest also finds an
 * image of that repository whose manifest or index has it. A name without a registry is looked for
 * as the store's own ("localhost/…") first. */
int store_image_find(struct store *st, const struct oci_ref *ref, struct store_image *ret,
	struct mlr_error *err);

/* The same for all that a user may write: an image from files is found by where these were. */
int store_image_find_name(struct store *st, const struct oci_name *name, struct store_image *ret,
	struct mlr_error *err);

/* What struct store_image's source says of a name: "oci:/absolute/path:REF", or NULL for a
 * registry's name and for standard input. To free(). */
char *store_image_source(const struct oci_name *name);

/* What one file "images/<hex>.json" says. Returns 0, -ENOENT, -EPROTO for one that is not ours. */
int store_image_load(
	struct store *st, const char *path, struct store_image *ret, struct mlr_error *err);

/* Are the facts there, and every tree that they name? Returns 0, or -ENOENT naming what is not. */
int store_image_check(struct store *st, const struct store_image *im, struct mlr_error *err);

/* Make or replace a name; facts, blobs and trees of its manifest must already be there. */
int store_image_put(struct store *st, const struct store_image *im, struct mlr_error *err);

/* The manifest that an image's name stands for so far, to free(); NULL when that is its own, or
 * none. */
char *store_image_other(struct store *st, const struct store_image *im);

/* Every name, sorted. *ret is an array of *n to be freed with store_images_free(). */
int store_image_list(struct store *st, struct store_image **ret, size_t *n, struct mlr_error *err);
void store_images_free(struct store_image *v, size_t n);

enum store_remove_how { STORE_REMOVE_UNUSED, STORE_REMOVE_FORCE, STORE_REMOVE_DEFER };

/*
 * Forget a name, and then delete what no other name needs: manifest, configuration, facts, trees;
 * those of images that lost their name to a newer one as well, unless a process runs in them or a
 * container is made of them.
 * Renames away first and deletes later, so that no process sees half a tree.
 *
 *   how    STORE_REMOVE_FORCE: in spite of processes of other hosts or PID namespaces, of which
 *          nobody here can see whether they still run; never of one that runs here.
 *          STORE_REMOVE_DEFER: of an image in use only the name goes; its files go with the next
 *          rm or prune after its last process
 *   ret    the image that the reference found and that is gone, for store_image_done(); may be NULL
 *
 * Waits for other processes that remove; what pulls at work count on stays.
 *
 * Returns 0; 1 when files were left as deferred; -ENOENT; or -EBUSY naming the process that runs
 * in it, or may, or the container that is made of it.
 */
int store_image_remove(struct store *st, const struct oci_ref *ref, enum store_remove_how how,
	struct store_image *ret, struct mlr_error *err);

#endif
