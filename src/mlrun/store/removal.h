/*
 * A removal by rm or prune. It renames parts into the trash while no other process may add
 * something that needs them, and deletes them afterwards. For the files of this room.
 */
#pragma once

#include "store/image.h"

struct store_hold;

struct removal {
	struct store *st;
	struct store_hold *hold;
	struct strv spare;       /* digests (hex) that running pulls rely on */
	struct strv from, trash; /* the parts removed, and their names in the trash */
};

#define REMOVAL_INIT(st)                                    \
	{                                                   \
		(st), NULL, STRV_INIT, STRV_INIT, STRV_INIT \
	}

/* Become the store's only remover, until removal_end(). */
int removal_begin(struct removal *rm, struct mlr_error *err);
void removal_end(struct removal *rm);

/* Move one path to the trash; nothing brings it back. Spares what running pulls rely on. If the
 * disk is full, empties the trash to make room. Returns 0, too, if nothing is there; -ESTALE if
 * another process considered this one dead, and then everything is back in its place. */
int removal_throw_for_good(struct removal *rm, const char *path, struct mlr_error *err);

enum removal_name {
	REMOVAL_ONE_NAME,  /* the manifest has other names */
	REMOVAL_LAST_NAME, /* the image goes with this name */
};

/*
 * Remove an image's name, and with the last name its facts, so that a process that takes a lease
 * later finds none.
 *
 *   force  as store_image_remove()'s STORE_REMOVE_FORCE
 *
 * Returns 0, or -EBUSY naming the process or container that uses it, with nothing changed.
 */
int removal_unname(struct removal *rm, const struct store_image *im, enum removal_name which,
	int force, struct mlr_error *err);

/* Delete the trash. This takes long; nobody else uses it, so no lock is needed. */
int removal_empty_trash(struct removal *rm, struct mlr_error *err);

void removal_done(struct removal *rm);

/*
 * The parts of images, as paths below the store's top: "layers/<hex>", "cover/<hex>", "dir/<hex>",
 * "squash/<hex>.sqfs", "facts/<hex>.json", "blobs/sha256/<hex>". For the files of this room.
 */

/* Add the parts of a named image, whether they exist or not. Without facts (a killed rm) its layers
 * are unknown. Returns 0, or -EPROTO for damaged facts, whose parts could not be spared. */
int store_parts_add_image(
	struct store *st, const struct store_image *im, struct strv *paths, struct mlr_error *err);

/*
 * Add the parts of images without a name (it was given to a newer image, or they are being pulled):
 * of those in use to keep, of the others to go. The build cache's layers are to keep, too.
 *
 *   named  manifests that have a name
 */
int store_parts_add_nameless(struct store *st, const struct strv *named, struct strv *keep,
	struct strv *go, struct mlr_error *err);

/* Does a process or a container use the image, as far as can be seen? */
int store_parts_in_use(struct store *st, const char *manifest);

/* Do these digests (hex) include the one that the path names? */
int store_parts_spared(const struct strv *digests, const char *path);
