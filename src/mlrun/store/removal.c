#include "store/removal.h"

#include "oci/digest.h"
#include "store/cache.h"
#include "store/container.h"
#include "store/facts.h"
#include "store/hold.h"
#include "store/json.h"
#include "store/trash.h"

static void add_blob(struct strv *paths, const char *digest)
{
	if (digest)
		strv_addf(paths, "blobs/sha256/%s", oci_digest_hex(digest));
}

static void add_descriptor(struct strv *paths, const json_t *descriptor)
{
	const char *digest = json_string_value(json_object_get(descriptor, "digest"));

	if (digest && oci_digest_check(digest, NULL) == 0)
		add_blob(paths, digest);
}

/* Add the blobs that a manifest names. Its digest was checked when it was stored. */
static void add_blobs(struct store *st, const char *manifest, struct strv *paths)
{
	auto_free char *path = xasprintf("blobs/sha256/%s", oci_digest_hex(manifest));
	json_auto_t *o = NULL;
	json_t *layer;
	size_t i;

	add_blob(paths, manifest);
	if (store_json_read(st, path, &o, NULL) < 0)
		return;
	add_descriptor(paths, json_object_get(o, "config"));
	json_array_foreach(json_object_get(o, "layers"), i, layer)
		add_descriptor(paths, layer);
}

static int add_parts(
	struct store *st, const char *manifest, struct strv *paths, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	const char *hex = oci_digest_hex(manifest);
	int r = store_facts_get(st, manifest, &f, err);

	if (r < 0 && r != -ENOENT)
		return r;
	/* An image in squashfs format alone needs no layers; a tree (dir) shares its files with
	 * them. */
	for (size_t i = 0; f.formats != STORE_FORMAT_SQUASHFS && i < f.config.diff_ids.n; i++)
		strv_addf(paths, "layers/%s", oci_digest_hex(f.config.diff_ids.v[i]));
	strv_addf(paths, "cover/%s", hex);
	strv_addf(paths, "dir/%s", hex);
	strv_addf(paths, "squash/%s.sqfs", hex);
	strv_addf(paths, "facts/%s.json", hex);
	add_blobs(st, manifest, paths);
	return 0;
}

int store_parts_add_image(
	struct store *st, const struct store_image *im, struct strv *paths, struct mlr_error *err)
{
	add_blob(paths, im->index);
	return add_parts(st, im->manifest, paths, err);
}

int store_parts_in_use(struct store *st, const char *manifest)
{
	struct store_lease lease;
	auto_free char *container = NULL;

	if (store_lease_held(st, manifest, &lease))
		return 1;
	container = store_container_of(st, manifest);
	return container != NULL;
}

static int add_nameless(struct store *st, const char *file, const struct strv *named,
	struct strv *keep, struct strv *go, struct mlr_error *err)
{
	char manifest[OCI_DIGEST_SIZE];

	if (strlen(file) != 64 + strlen(".json") || strcmp(file + 64, ".json") != 0)
		return 0;
	snprintf(manifest, sizeof(manifest), "sha256:%.64s", file);
	if (oci_digest_check(manifest, NULL) < 0 || strv_has(named, manifest))
		return 0;
	return add_parts(st, manifest, store_parts_in_use(st, manifest) ? keep : go, err);
}

int store_parts_add_nameless(struct store *st, const struct strv *named, struct strv *keep,
	struct strv *go, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "facts", 0);
	int r = 0;

	if (!d)
		return mlr_fail_errno(err, "open '%s/facts'", store_path(st));
	store_cache_keep(st, keep);
	for (struct dirent *e; r == 0 && (e = file_next(d));)
		r = add_nameless(st, e->d_name, named, keep, go, err);
	return r;
}

int store_parts_spared(const struct strv *digests, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < digests->n; i++)
		if (strncmp(digests->v[i], name, 64) == 0)
			return 1;
	return 0;
}

int removal_begin(struct removal *rm, struct mlr_error *err)
{
	return store_remover_begin(rm->st, &rm->spare, &rm->hold, err);
}

void removal_end(struct removal *rm)
{
	store_remover_end(take_ptr(&rm->hold));
}

int removal_empty_trash(struct removal *rm, struct mlr_error *err)
{
	int r = 0;

	for (size_t i = 0; i < rm->trash.n; i++) {
		int e = file_remove_tree(store_fd(rm->st), rm->trash.v[i], r < 0 ? NULL : err);

		r = r < 0 ? r : e;
	}
	strv_done(&rm->trash);
	strv_done(&rm->from);
	return r;
}

static void drop_last(struct strv *l)
{
	free(l->v[--l->n]);
	l->v[l->n] = NULL;
}

/* Undo all but the first n calls of throw_away(). */
static void take_back(struct removal *rm, size_t n)
{
	int fd = store_fd(rm->st);

	while (rm->trash.n > n) {
		const char *now = rm->trash.v[rm->trash.n - 1], *was = rm->from.v[rm->from.n - 1];

		if (renameat(fd, now, fd, was) < 0)
			mlr_warning(
				"cannot rename '%s' back to '%s': %s", now, was, strerror(errno));
		drop_last(&rm->trash);
		drop_last(&rm->from);
	}
}

/* Move one path to the trash; returns as removal_throw_for_good() does. */
static int throw_away(struct removal *rm, const char *path, struct mlr_error *err)
{
	char to[STORE_WORK_PATH];
	int r = store_trash(rm->st, path, to, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	strv_add(&rm->from, path);
	strv_add(&rm->trash, to);
	if (store_remover_holds(rm->hold))
		return 0;
	/* The process that considered this one dead may add what needs these parts. */
	take_back(rm, 0);
	return store_hold_lost(rm->st, err);
}

int removal_throw_for_good(struct removal *rm, const char *path, struct mlr_error *err)
{
	int r = store_parts_spared(&rm->spare, path) ? 0 : throw_away(rm, path, err);

	if (r != -ENOSPC && r != -EDQUOT)
		return r;
	removal_empty_trash(rm, NULL);
	return throw_away(rm, path, err);
}

/* Refuse because of a process that cannot be seen from here and may have ended long ago. */
static int refuse_unseen(
	const struct store_image *im, const struct store_lease *l, struct mlr_error *err)
{
	char when[32] = "?";
	time_t t = (time_t)l->since;
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	mlr_fail(err, EBUSY,
		"image '%s' was in use by process %ld on '%s'%s at %s; whether it still runs "
		"cannot be seen from here",
		im->name, (long)l->pid, l->host,
		l->here && !l->other_boot ? " in another PID namespace" : "", when);
	if (l->here && l->other_boot)
		mlr_hint(err,
			"this host was restarted since, then mlrun rm --force; or there is another "
			"'%s'; --defer removes the name now and the files later",
			l->host);
	else if (l->here)
		mlr_hint(err,
			"run mlrun rm there, or mlrun rm --force; --defer removes the name "
			"now and the files later");
	else
		mlr_hint(err,
			"run mlrun rm on '%s', or mlrun rm --force; --defer removes the name now "
			"and the files later",
			l->host);
	return -EBUSY;
}

static int check_containers(struct store *st, const struct store_image *im, struct mlr_error *err)
{
	auto_free char *name = store_container_of(st, im->manifest);

	if (!name)
		return 0;
	mlr_fail(err, EBUSY, "container '%s' is made of image '%s'", name, im->name);
	mlr_hint(err,
		"mlrun containers rm %s removes what was written in it; --defer removes the image's "
		"name now, and the files when the container is gone",
		name);
	return -EBUSY;
}

static int check_users(
	struct store *st, const struct store_image *im, int force, struct mlr_error *err)
{
	struct store_lease l;

	if (!store_lease_held(st, im->manifest, &l))
		return check_containers(st, im, err);
	if (!l.is_running)
		return force ? check_containers(st, im, err) : refuse_unseen(im, &l, err);
	if (l.job[0])
		mlr_fail(err, EBUSY, "image '%s' is in use by process %ld on '%s', of Slurm job %s",
			im->name, (long)l.pid, l.host, l.job);
	else
		mlr_fail(err, EBUSY, "image '%s' is in use by process %ld on '%s'", im->name,
			(long)l.pid, l.host);
	mlr_hint(err,
		"remove it when that process has ended; --defer removes the name now and "
		"the files then");
	return -EBUSY;
}

int removal_unname(struct removal *rm, const struct store_image *im, enum removal_name which,
	int force, struct mlr_error *err)
{
	char path[STORE_IMAGE_PATH], facts[STORE_IMAGE_PATH];
	size_t before = rm->trash.n;
	int r = 0;

	store_image_path(im->name, path);
	snprintf(facts, sizeof(facts), "facts/%.64s.json", oci_digest_hex(im->manifest));
	if (which == REMOVAL_LAST_NAME) /* check once before anything is moved */
		r = check_users(rm->st, im, force, err);
	if (r == 0)
		r = throw_away(rm, path, err);
	if (r < 0 || which == REMOVAL_ONE_NAME)
		return r;
	/* A running pull brings the name back, and needs the facts. */
	if (store_parts_spared(&rm->spare, facts))
		return 0;
	r = throw_away(rm, facts, err);
	if (r == 0)
		r = check_users(rm->st, im, force, err);
	if (r == 0)
		store_lease_drop(rm->st, im->manifest);
	else
		take_back(rm, before);
	return r;
}

void removal_done(struct removal *rm)
{
	removal_end(rm);
	strv_done(&rm->spare);
	strv_done(&rm->from);
	strv_done(&rm->trash);
}

/* Removing an image: the other half of store/image.h. */

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
	struct store_image *v = NULL, named = { 0 };
	size_t n = 0, found = 0;
	int r = strcmp(c->image.name, c->image.manifest) == 0 ? store_image_list(st, &v, &n, err)
							      : 0;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i].manifest, c->image.manifest) != 0 || ++found > 1)
			continue;
		named = v[i];
		v[i] = (struct store_image){ 0 };
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
	strv_add_all(&all, &c->named);
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
	TRY(r);
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
	auto_call(choice_done) struct choice c = { { 0 }, STRV_INIT, STRV_INIT, STRV_INIT };
	int r = removal_begin(&rm, err), e;

	if (r == 0)
		r = remove_locked(&rm, &c, ref, how, err);
	removal_end(&rm);
	e = removal_empty_trash(&rm, r < 0 ? NULL : err);
	if (r >= 0 && e < 0)
		return e;
	if (r >= 0 && ret) {
		*ret = c.image;
		c.image = (struct store_image){ 0 };
	}
	return r;
}
