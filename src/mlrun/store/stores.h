/*
 * The user's own store and, behind it, additional ones that others keep for everybody: read, never
 * written to. They are named by $MLRUN_STORES (DIR:DIR…), else by additional_stores of the
 * configuration, and searched in that order after the user's own.
 *
 * An image is used from one store, whole. Layers are not combined across stores: whoever keeps an
 * additional store removes from it what his own images do not need, and knows of no others.
 */
#ifndef MLR_STORE_STORES_H
#define MLR_STORE_STORES_H

#include "base/error.h"
#include "base/config.h"
#include "store/image.h"
#include "store/store.h"

#include <stddef.h>

struct stores {
	struct store **v; /* n of them, in the order of searching */
	size_t n;
	int has_own; /* v[0] is the user's own; else that is not there */
};

#define STORES_INIT        \
	{                  \
		NULL, 0, 0 \
	}

/*
 * Open those that are there.
 *
 *   dir  the user's own, as store_open()'s
 *   c    the configuration; NULL: it is read
 *
 * An additional store that is not there is passed over; one that cannot be opened is so with a
 * warning. Returns 0; -ENOENT when not even one is there; or what store_open() says of the own.
 */
int stores_open(const char *dir, const struct config *c, struct stores *ret, struct mlr_error *err);

/* The additional ones alone, but for one that is own. Returns 0 or what the configuration says. */
int stores_open_additional(const struct store *own, struct stores *ret, struct mlr_error *err);

void stores_close(struct stores *s);

/* The first that has the image. Returns as store_image_find_name() does; *st stays s's. */
int stores_find(const struct stores *s, const struct oci_name *name, struct store **st,
	struct store_image *ret, struct mlr_error *err);

#endif
