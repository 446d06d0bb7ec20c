/* Removing an image: the other half of store/image.h. */
#include "store/image.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "oci/digest.h"
#include "store/blob.h"
#include "store/facts.h"
#include "store/handle.h"
#include "store/image_file.h"
#include "store/json.h"
#include "store/lease.h"
#include "store/lock.h"
#include "store/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* A removal under way. What goes is renamed into trash first; what stays is in the keep lists. */
struct removal {
	struct store *st;
	struct store_image image;
	struct store_facts facts;    /* empty when an earlier removal was cut short */
	struct store_image *others;  /* every other image */
	size_t n_others;
	struct strv keep_layers, keep_blobs;
	char image_path[STORE_IMAGE_PATH], facts_path[96];
	char *trash; /* "tmp/trash.<host>.<pid>.<start>" */
};

static void removal_done(struct removal *rm)
{
	store_image_done(&rm->image);
	store_facts_done(&rm->facts);
	store_images_free(rm->others, rm->n_others);
	strv_done(&rm->keep_layers);
	strv_done(&rm->keep_blobs);
	free(rm->trash);
}

static int make_trash(struct removal *rm, struct mlr_error *err)
{
	struct store_process self;
	char who[STORE_PROCESS_NAME];
	int r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(err, -r, "read /proc/self/stat and boot_id: %s", strerror(-r));
	store_process_name(&self, who);
	rm->trash = xasprintf("tmp/trash.%s", who);
	if (mkdirat(store_fd(rm->st), rm->trash, 0700) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "create '%s/%s'", store_path(rm->st), rm->trash);
	return 0;
}

/* The name that path has in the trash. */
static char *trash_name(const struct removal *rm, const char *path)
{
	char *name = xasprintf("%s/%s", rm->trash, path);

	for (char *c = name + strlen(rm->trash) + 1; *c; c++)
		if (*c == '/')
			*c = '-';
	return name;
}

/* Take one path out of sight. What is not there is gone already. */
static int throw_away(const struct removal *rm, const char *path, struct mlr_error *err)
{
	auto_free char *to = trash_name(rm, path);
	int fd = store_fd(rm->st);

	if (renameat(fd, path, fd, to) < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "rename '%s/%s' to '%s'", store_path(rm->st), path, to);
	return 0;
}

/* Undo throw_away(). */
static void take_back(const struct removal *rm, const char *path)
{
	auto_free char *from = trash_name(rm, path);
	int fd = store_fd(rm->st);

	if (renameat(fd, from, fd, path) < 0 && errno != ENOENT)
		mlr_warning("cannot rename '%s' back to '%s': %s", from, path, strerror(errno));
}

/* The configuration's digest as the manifest names it; the bytes were checked when they came. */
static int config_of(struct store *st, const char *manifest, char **ret)
{
	char path[96];
	json_auto_t *o = NULL;

	snprintf(path, sizeof(path), "blobs/sha256/%.64s", oci_digest_hex(manifest));
	if (store_json_read(st, path, &o, NULL) < 0)
		return -ENOENT;
	if (store_json_string(json_object_get(o, "config"), "digest", ret) < 0 || !*ret)
		return -EPROTO;
	return oci_digest_check(*ret, NULL);
}

/* What another image needs: its layers by its facts, its documents by itself and its manifest. */
static int keep_other(struct removal *rm, const struct store_image *im, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;
	auto_free char *config = NULL;
	int r = store_facts_get(rm->st, im->manifest, &f, err);

	if (r < 0 && r != -ENOENT)
		return r; /* without knowing its layers none can be deleted */
	for (size_t i = 0; i < f.config.diff_ids.n; i++)
		strv_add(&rm->keep_layers, f.config.diff_ids.v[i]);
	strv_add(&rm->keep_blobs, im->manifest);
	if (im->index)
		strv_add(&rm->keep_blobs, im->index);
	if (config_of(rm->st, im->manifest, &config) == 0)
		strv_add(&rm->keep_blobs, config);
	return 0;
}

/* Fill rm with what goes and what stays. */
static int look(struct removal *rm, const struct oci_ref *ref, struct mlr_error *err)
{
	int r = store_image_find(rm->st, ref, &rm->image, err);

	if (r < 0)
		return r;
	store_image_path(rm->image.name, rm->image_path);
	snprintf(rm->facts_path, sizeof(rm->facts_path), "facts/%.64s.json",
		oci_digest_hex(rm->image.manifest));
	r = store_image_list(rm->st, &rm->others, &rm->n_others, err);
	if (r < 0)
		return r;
	r = store_facts_get(rm->st, rm->image.manifest, &rm->facts, err);
	return r == -ENOENT ? 0 : r;
}

static int is_shared(const struct removal *rm)
{
	for (size_t i = 0; i < rm->n_others; i++)
		if (strcmp(rm->others[i].name, rm->image.name) != 0 &&
			strcmp(rm->others[i].manifest, rm->image.manifest) == 0)
			return 1;
	return 0;
}

static int check_leases(const struct removal *rm, struct mlr_error *err)
{
	char host[STORE_HOST_SIZE];
	pid_t pid;

	if (!store_lease_held(rm->st, rm->image.manifest, &pid, host))
		return 0;
	mlr_fail(err, EBUSY, "image '%s' is in use by process %ld on '%s'", rm->image.name, (long)pid, host);
	mlr_hint(err, "remove it when that process has ended");
	return -EBUSY;
}

/* The name goes before the leases are looked at for good: who takes one later finds no image. */
static int unname(const struct removal *rm, struct mlr_error *err)
{
	int r = check_leases(rm, err); /* most refusals end here, with nothing moved */

	if (r < 0)
		return r;
	r = throw_away(rm, rm->image_path, err);
	if (r < 0)
		return r;
	r = throw_away(rm, rm->facts_path, err);
	if (r == 0)
		r = check_leases(rm, err);
	if (r < 0) {
		take_back(rm, rm->facts_path);
		take_back(rm, rm->image_path);
		return r;
	}
	file_sync_dir(store_fd(rm->st), "images");
	return 0;
}

static int remove_blob(const struct removal *rm, const char *digest, struct mlr_error *err)
{
	char path[96];

	if (!digest || strv_has(&rm->keep_blobs, digest))
		return 0;
	snprintf(path, sizeof(path), "blobs/sha256/%.64s", oci_digest_hex(digest));
	return throw_away(rm, path, err);
}

static int remove_parts(const struct removal *rm, const char *config, struct mlr_error *err)
{
	const struct strv *layers = &rm->facts.config.diff_ids;
	char path[96];
	int r;

	for (size_t i = 0; i < layers->n; i++) {
		if (strv_has(&rm->keep_layers, layers->v[i]))
			continue;
		snprintf(path, sizeof(path), "layers/%.64s", oci_digest_hex(layers->v[i]));
		r = throw_away(rm, path, err);
		if (r < 0)
			return r;
	}
	snprintf(path, sizeof(path), "dir/%.64s", oci_digest_hex(rm->image.manifest));
	r = throw_away(rm, path, err);
	if (r == 0)
		r = remove_blob(rm, config, err);
	if (r == 0)
		r = remove_blob(rm, rm->image.index, err);
	return r < 0 ? r : remove_blob(rm, rm->image.manifest, err);
}

static int remove_locked(struct removal *rm, const struct oci_ref *ref, struct mlr_error *err)
{
	auto_free char *config = NULL;
	int r = look(rm, ref, err);

	if (r < 0)
		return r;
	r = make_trash(rm, err);
	if (r < 0)
		return r;
	if (is_shared(rm)) {
		r = throw_away(rm, rm->image_path, err);
		return r < 0 ? r : file_sync_dir(store_fd(rm->st), "images");
	}
	for (size_t i = 0; i < rm->n_others; i++) {
		if (strcmp(rm->others[i].name, rm->image.name) == 0)
			continue;
		r = keep_other(rm, &rm->others[i], err);
		if (r < 0)
			return r;
	}
	if (config_of(rm->st, rm->image.manifest, &config) < 0)
		mlr_debug("store: no configuration known for %s", rm->image.manifest);
	r = unname(rm, err);
	return r < 0 ? r : remove_parts(rm, config, err);
}

/* Alone with the store: no pull adds to it. A handle that holds it itself steps back afterwards. */
static int lock_store(struct store *st, int *own, struct mlr_error *err)
{
	static const char what[] = "adding to or removing from this store";
	int r;

	if (st->hold_fd >= 0)
		return store_lock_change(st->hold_fd, "lock", STORE_LOCK_EXCLUSIVE, what, err);
	r = store_lock(st, "lock", STORE_LOCK_EXCLUSIVE, what, err);
	if (r < 0)
		return r;
	*own = r;
	return 0;
}

int store_image_remove(struct store *st, const struct oci_ref *ref, struct mlr_error *err)
{
	auto_call(removal_done) struct removal rm = { .st = st };
	auto_close int own = -1;
	int r;

	pthread_mutex_lock(&st->mutex);
	r = lock_store(st, &own, err);
	if (r == 0) {
		r = remove_locked(&rm, ref, err);
		if (own < 0)
			flock(st->hold_fd, LOCK_SH);
		else
			close(take_fd(&own));
	}
	pthread_mutex_unlock(&st->mutex);

	/* Deleting takes long and nobody sees it any more, so it needs no lock. */
	if (rm.trash) {
		int e = file_remove_tree(store_fd(st), rm.trash, r < 0 ? NULL : err);

		r = r < 0 ? r : e;
	}
	return r;
}
