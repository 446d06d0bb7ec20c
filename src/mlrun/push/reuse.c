#include "push/reuse.h"

#include "base/base.h"
#include "store/blob.h"
#include "store/image.h"

#define PLACES_MAX 8 /* that the store remembers of a blob */
#define MOUNTS_MAX 3 /* to try */
#define FORMAT     1 /* of the compressed bytes: another one is another blob */

void reuse_done(struct reuse *u)
{
	for (size_t i = 0; u->places && i < u->doc->manifest.n_layers; i++)
		strv_done(&u->places[i]);
	free(u->places);
	pthread_mutex_destroy(&u->lock);
}

int reuse_is_fit(const struct reuse *u, size_t i)
{
	enum oci_compression has = u->doc->manifest.layers[i].compression;

	return has == u->compression || (has != OCI_PLAIN && !u->only);
}

/* Note the repository of a stored image at the layers that are in it as well. */
static void note_places(struct reuse *u, const struct store_image *im)
{
	auto_call(oci_ref_done) struct oci_ref ref = OCI_REF_INIT;
	auto_call(oci_document_done) struct oci_document doc = OCI_DOCUMENT_INIT;
	auto_free char *text = NULL;
	size_t len;

	if (oci_ref_parse(im->name, &ref, NULL) < 0 || strcmp(ref.registry, u->to->registry) != 0 ||
		strcmp(ref.repository, u->to->repository) == 0 ||
		store_blob_get(u->st, im->manifest, &text, &len, NULL) < 0 ||
		oci_document_parse(text, len, NULL, NULL, &doc, NULL) < 0)
		return;
	for (size_t i = 0; i < u->doc->manifest.n_layers; i++)
		for (size_t j = 0; j < doc.n_layers; j++)
			if (strcmp(u->doc->manifest.layers[i].blob.digest,
				    doc.layers[j].blob.digest) == 0 &&
				!strv_has(&u->places[i], ref.repository))
				strv_add(&u->places[i], ref.repository);
}

/* The repositories that may have layer i's original blob, by the images of the store. */
static const struct strv *places_of(struct reuse *u, size_t i)
{
	struct store_image *images = NULL;
	size_t n = 0;

	pthread_mutex_lock(&u->lock);
	if (!u->is_listed) {
		u->is_listed = 1;
		u->places = xcalloc(u->doc->manifest.n_layers + 1, sizeof(*u->places));
		if (store_image_list(u->st, &images, &n, NULL) == 0) {
			for (size_t k = 0; k < n; k++)
				note_places(u, &images[k]);
			store_images_free(images, n);
		}
	}
	pthread_mutex_unlock(&u->lock);
	return &u->places[i];
}

/* Returns 2 once one of the last repositories gave the blob, or 0. */
static int mount_from(
	struct reuse *u, const char *digest, const struct strv *places, struct mlr_error *err)
{
	size_t tried = 0;

	for (size_t i = places->n; i-- > 0 && tried < MOUNTS_MAX; tried++) {
		int r = registry_blob_mount(u->registry, digest, places->v[i], err);

		if (r != 0)
			return r < 0 ? r : 2;
	}
	return 0;
}

int reuse_original(struct reuse *u, size_t i, struct mlr_error *err)
{
	const char *digest = u->doc->manifest.layers[i].blob.digest;
	int r;

	if (!reuse_is_fit(u, i))
		return 0;
	r = registry_blob_has(u->registry, digest, err);
	return r != 0 ? r : mount_from(u, digest, places_of(u, i), err);
}

/* The key of what layer i becomes. */
static void key_of(const struct reuse *u, size_t i, char key[OCI_DIGEST_SIZE])
{
	auto_free char *words = xasprintf("blob %d %s %s", FORMAT,
		oci_compression_type(u->compression), u->doc->config.diff_ids.v[i]);

	hash_digest(words, strlen(words), key);
}

/* The repositories of this registry among the places of a blob, without ours. */
static void list_repositories(
	const struct reuse *u, const struct store_cache_blob *b, struct strv *ret)
{
	size_t n = strlen(u->to->registry);

	for (size_t i = 0; i < b->places.n; i++) {
		const char *place = b->places.v[i];

		if (strncmp(place, u->to->registry, n) == 0 && place[n] == '/' &&
			strcmp(place + n + 1, u->to->repository) != 0)
			strv_add(ret, place + n + 1);
	}
}

int reuse_packed(struct reuse *u, size_t i, struct store_cache_blob *ret, struct mlr_error *err)
{
	auto_strv struct strv repositories = STRV_INIT;
	char key[OCI_DIGEST_SIZE];
	int r;

	key_of(u, i, key);
	if (store_cache_blob_get(u->st, key, ret) < 0)
		return 0;
	r = registry_blob_has(u->registry, ret->digest, err);
	if (r != 0)
		return r;
	list_repositories(u, ret, &repositories);
	return mount_from(u, ret->digest, &repositories, err);
}

void reuse_remember(struct reuse *u, size_t i, struct store_cache_blob *b)
{
	auto_free char *place = xasprintf("%s/%s", u->to->registry, u->to->repository);
	struct store_cache_blob newest = STORE_CACHE_BLOB_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	char key[OCI_DIGEST_SIZE];

	key_of(u, i, key);
	memcpy(newest.digest, b->digest, sizeof(newest.digest));
	newest.size = b->size;
	for (size_t k = b->places.n >= PLACES_MAX ? b->places.n - PLACES_MAX + 1 : 0;
		k < b->places.n; k++)
		if (strcmp(b->places.v[k], place) != 0)
			strv_add(&newest.places, b->places.v[k]);
	strv_add(&newest.places, place);
	/* A store of another user's is read-only: the next push compresses again. */
	if (store_cache_blob_put(u->st, key, &newest, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, "");
	store_cache_blob_done(&newest);
}
