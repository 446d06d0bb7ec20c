/*
 * A removal under way, by rm or prune: what goes is renamed into the trash while no other process
 * adds what it would need, and deleted when that is over. For this room's other files.
 */
#ifndef MLR_STORE_REMOVAL_H
#define MLR_STORE_REMOVAL_H

#include "base/error.h"
#include "base/strv.h"
#include "store/image.h"
#include "store/store.h"

struct store_hold;

struct removal {
	struct store *st;
	struct store_hold *hold;
	struct strv spare;       /* digests (hex) that pulls at work count on */
	struct strv from, trash; /* what was thrown away, and where it is now */
};

#define REMOVAL_INIT(st)                                    \
	{                                                   \
		(st), NULL, STRV_INIT, STRV_INIT, STRV_INIT \
	}

/* Become the store's only remover; removal_end() lets others in. */
int removal_begin(struct removal *rm, struct mlr_error *err);
void removal_end(struct removal *rm);

/* Take one path out of sight that nothing can bring back; not what pulls at work count on, and on a
 * full disk what lies in the trash makes room for the next. What is not there is gone already.
 * -ESTALE: another process took this one for dead; all is back in its place. */
int removal_throw_for_good(struct removal *rm, const char *path, struct mlr_error *err);

enum removal_name {
	REMOVAL_ONE_NAME,  /* the manifest has other names */
	REMOVAL_LAST_NAME, /* the image goes with this name */
};

/*
 * Take an image's name away, and with the last one its facts: who takes a lease later finds none.
 *
 *   force  as store_image_remove()'s STORE_REMOVE_FORCE
 *
 * Returns 0, or -EBUSY naming the process that uses it or the container that is made of it; then
 * all is as it was.
 */
int removal_unname(struct removal *rm, const struct store_image *im, enum removal_name which,
	int force, struct mlr_error *err);

/* Delete what was thrown away. It takes long and nobody sees it any more, so it needs no lock. */
int removal_empty_trash(struct removal *rm, struct mlr_error *err);

void removal_done(struct removal *rm);

#endif
