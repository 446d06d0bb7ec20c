/* Removing an image: the other half of store/image.h. */
#include "store/image.h"

#include "base/base.h"
#include "store/parts.h"
#include "store/removal.h"

/* The image to remove, the parts that other images need, and the parts that it or nameless images
 * need. */
struct choice {
	struct store_image image;
	struct strv named; /* manifests of the other names */
	struct strv keep, go;
};

static void choice_done(struct choice *c)
{
	store_image_done(&c->image);
	strv_done(&c->named);
	strv_done(&c->keep);
	strv_done(&c->go);
}

/* Keep what the other names need. */
static int look_at_others(struct store *st, struct choice *c, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;
	int r = store_image_list(st, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (strcmp(v[i].name, c->image.name) == 0)
			continue;
		strv_add(&c->named, v[i].manifest);
		r = store_parts_add_image(st, &v[i], &c->keep, err);
	}
	store_images_free(v, n);
	return r;
}

static int has_other_name(const struct choice *c)
{
	return strv_has(&c->named, c->image.manifest);
}

/* An image asked for by its digest goes with its name, if it has one; with several none is meant.
 */
static int settle_name(struct store *st, struct choice *c, struct mlr_error *err)
{
	struct store_image *v = NULL, named = STORE_IMAGE_INIT;
	size_t n = 0, found = 0;
	int r = strcmp(c->image.name, c->image.manifest) == 0 ? store_image_list(st, &v, &n, err)
							      : 0;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].manifest, c->image.manifest) != 0 || ++found > 1)
			continue;
		named = v[i];
		v[i] = (struct store_image)STORE_IMAGE_INIT;
	}
	store_images_free(v, n);
	if (found > 1) {
		r = mlr_fail(err, EBUSY, "image '%s' has %zu names", c->image.manifest, found);
		mlr_hint(err, "mlrun images lists them; mlrun rm NAME removes one");
		store_image_done(&named);
	} else if (found == 1) {
		store_image_done(&c->image);
		c->image = named;
	}
	return r;
}

static int look(
	struct store *st, const struct oci_ref *ref, struct choice *c, struct mlr_error *err)
{
	auto_strv struct strv all = STRV_INIT;
	int r;

	TRY(store_image_find(st, ref, &c->image, err));
	TRY(settle_name(st, c, err));
	TRY(look_at_others(st, c, err));
	for (size_t i = 0; i < c->named.n; i++)
		strv_add(&all, c->named.v[i]);
	strv_add(&all, c->image.manifest);
	r = store_parts_add_nameless(st, &all, &c->keep, &c->go, err);
	if (r < 0 || has_other_name(c))
		return r;
	return store_parts_add_image(st, &c->image, &c->go, err);
}

/* Remove only the name: the image is then a nameless one, which a later removal deletes when nobody
 * uses it. */
static int defer(struct removal *rm, struct choice *c, struct mlr_error *err)
{
	TRY(removal_unname(rm, &c->image, REMOVAL_ONE_NAME, 0, err));
	return store_parts_add_image(rm->st, &c->image, &c->keep, err);
}

static int remove_locked(struct removal *rm, struct choice *c, const struct oci_ref *ref,
	enum store_remove_how how, struct mlr_error *err)
{
	int deferred = 0, r;

	TRY(look(rm->st, ref, c, err));
	r = removal_unname(rm, &c->image, has_other_name(c) ? REMOVAL_ONE_NAME : REMOVAL_LAST_NAME,
		how == STORE_REMOVE_FORCE, err);
	if (r == -EBUSY && how == STORE_REMOVE_DEFER) {
		deferred = 1;
		r = defer(rm, c, err);
	}
	if (r < 0)
		return r;
	file_sync_dir(store_fd(rm->st), "images");
	for (size_t i = 0; i < c->go.n && r == 0; i++)
		if (!strv_has(&c->keep, c->go.v[i]))
			r = removal_throw_for_good(rm, c->go.v[i], err);
	return r < 0 ? r : deferred;
}

int store_image_remove(struct store *st, const struct oci_ref *ref, enum store_remove_how how,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(removal_done) struct removal rm = REMOVAL_INIT(st);
	auto_call(choice_done) struct choice c = { STORE_IMAGE_INIT, STRV_INIT, STRV_INIT,
		STRV_INIT };
	int r = removal_begin(&rm, err), e;

	if (r == 0)
		r = remove_locked(&rm, &c, ref, how, err);
	removal_end(&rm);
	e = removal_empty_trash(&rm, r < 0 ? NULL : err);
	if (r >= 0 && e < 0)
		return e;
	if (r >= 0 && ret) {
		*ret = c.image;
		c.image = (struct store_image)STORE_IMAGE_INIT;
	}
	return r;
}
