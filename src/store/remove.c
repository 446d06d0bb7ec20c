/* Removing an image: the other half of store/image.h. */
#include "store/image.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "oci/digest.h"
#include "store/facts.h"
#include "store/handle.h"
#include "store/image_file.h"
#include "store/json.h"
#include "store/lease.h"
#include "store/lock.h"
#include "store/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

/*
 * A removal under way, in paths below the store's top: what the images that stay need, and what the
 * one that goes needs, and those that lost their name when it was given to a newer image. Paths
 * that go are renamed into the trash first.
 */
struct removal {
	struct store *st;
	enum store_remove_how how;
	struct store_image image;
	struct strv names; /* manifests that have a name other than this one */
	struct strv keep, go;
	char image_path[STORE_IMAGE_PATH], facts_path[STORE_IMAGE_PATH];
	char *who;               /* this process */
	struct strv from, trash; /* what was thrown away, and its name "tmp/trash.<n>.<who>" now */
};

static void removal_done(struct removal *rm)
{
	store_image_done(&rm->image);
	strv_done(&rm->names);
	strv_done(&rm->keep);
	strv_done(&rm->go);
	strv_done(&rm->from);
	strv_done(&rm->trash);
	free(rm->who);
}

static int name_trash(struct removal *rm, struct mlr_error *err)
{
	struct store_process self;
	char who[STORE_PROCESS_NAME];
	int r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(err, -r, "read /proc/self/stat and boot_id: %s", strerror(-r));
	store_process_name(&self, who);
	rm->who = xstrdup(who);
	return 0;
}

/* Delete what was thrown away. It takes long and nobody sees it any more, so it needs no lock. */
static int empty_trash(struct removal *rm, struct mlr_error *err)
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

/* Take one path out of sight. What is not there is gone already. */
static int throw_away(struct removal *rm, const char *path, struct mlr_error *err)
{
	static unsigned serial;
	auto_free char *to = xasprintf("tmp/trash.%u.%s",
		__atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED), rm->who);
	int fd = store_fd(rm->st);

	if (renameat(fd, path, fd, to) < 0) {
		if (errno == ENOENT)
			return 0;
		return mlr_fail_errno(err, "rename '%s/%s' to '%s'", store_path(rm->st), path, to);
	}
	strv_add(&rm->from, path);
	strv_add(&rm->trash, to);
	return 0;
}

/* The same, once the name is gone for good: on a full disk, what lies in the trash makes room for
 * the next name in tmp/. */
static int throw_away_for_good(struct removal *rm, const char *path, struct mlr_error *err)
{
	int r = throw_away(rm, path, err);

	if (r != -ENOSPC && r != -EDQUOT)
		return r;
	empty_trash(rm, NULL);
	return throw_away(rm, path, err);
}

/* Undo every throw_away() so far. */
static void take_back(const struct removal *rm)
{
	int fd = store_fd(rm->st);

	for (size_t i = rm->trash.n; i-- > 0;)
		if (renameat(fd, rm->trash.v[i], fd, rm->from.v[i]) < 0)
			mlr_warning("cannot rename '%s' back to '%s': %s", rm->trash.v[i],
				rm->from.v[i], strerror(errno));
}

static void add_blob(struct strv *paths, const char *digest)
{
	if (digest)
		strv_addf(paths, "blobs/sha256/%s", oci_digest_hex(digest));
}

/* The configuration's digest as the manifest names it; the bytes were checked when they came. */
static void add_config(struct store *st, const char *manifest, struct strv *paths)
{
	auto_free char *path = xasprintf("blobs/sha256/%s", oci_digest_hex(manifest)),
		       *digest = NULL;
	json_auto_t *o = NULL;

	if (store_json_read(st, path, &o, NULL) == 0 &&
		store_json_string(json_object_get(o, "config"), "digest", &digest) == 0 && digest &&
		oci_digest_check(digest, NULL) == 0)
		add_blob(paths, digest);
}

/* All that an image consists of. Without facts (an rm that was killed) its layers are not known. */
static int add_parts(
	struct store *st, const char *manifest, struct strv *paths, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = STORE_FACTS_INIT;
	const char *hex = oci_digest_hex(manifest);
	int r = store_facts_get(st, manifest, &f, err);

	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t i = 0; i < f.config.diff_ids.n; i++)
		strv_addf(paths, "layers/%s", oci_digest_hex(f.config.diff_ids.v[i]));
	strv_addf(paths, "cover/%s", hex);
	strv_addf(paths, "dir/%s", hex);
	strv_addf(paths, "facts/%s.json", hex);
	add_config(st, manifest, paths);
	add_blob(paths, manifest);
	return 0;
}

/* What the other names need stays. */
static int look_at_others(struct removal *rm, struct mlr_error *err)
{
	struct store_image *v = NULL;
	size_t n = 0;
	int r = store_image_list(rm->st, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (strcmp(v[i].name, rm->image.name) == 0)
			continue;
		strv_add(&rm->names, v[i].manifest);
		add_blob(&rm->keep, v[i].index);
		r = add_parts(rm->st, v[i].manifest, &rm->keep,
			err); /* unknown parts could not be spared */
	}
	store_images_free(v, n);
	return r;
}

/* An image without a name goes, too, unless a process still runs in it. */
static int look_at_nameless(struct removal *rm, const char *file, struct mlr_error *err)
{
	char manifest[OCI_DIGEST_SIZE];
	struct store_lease lease;

	if (strlen(file) != 64 + strlen(".json") || strcmp(file + 64, ".json") != 0)
		return 0;
	snprintf(manifest, sizeof(manifest), "sha256:%.64s", file);
	if (oci_digest_check(manifest, NULL) < 0 || strv_has(&rm->names, manifest) ||
		strcmp(manifest, rm->image.manifest) == 0)
		return 0;
	return add_parts(rm->st, manifest,
		store_lease_held(rm->st, manifest, &lease) ? &rm->keep : &rm->go, err);
}

static int look_at_facts(struct removal *rm, struct mlr_error *err)
{
	int fd = openat(store_fd(rm->st), "facts", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return mlr_fail_errno(err, "open '%s/facts'", store_path(rm->st));
	while (r == 0 && (e = readdir(d)))
		r = look_at_nameless(rm, e->d_name, err);
	closedir(d);
	return r;
}

static int has_other_name(const struct removal *rm)
{
	return strv_has(&rm->names, rm->image.manifest);
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
	r = look_at_others(rm, err);
	if (r == 0)
		r = look_at_facts(rm, err);
	if (r < 0 || has_other_name(rm))
		return r;
	add_blob(&rm->go, rm->image.index);
	return add_parts(rm->st, rm->image.manifest, &rm->go, err);
}

/* A process that nobody here can see; it may have ended long ago. */
static int refuse_unseen(
	const struct removal *rm, const struct store_lease *l, struct mlr_error *err)
{
	char when[32] = "?";
	time_t t = (time_t)l->since;
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	mlr_fail(err, EBUSY,
		"image '%s' was started in by process %ld on '%s'%s at %s; whether it still runs "
		"cannot be seen from here",
		rm->image.name, (long)l->pid, l->host,
		l->here ? " in another PID namespace" : "", when);
	if (l->here)
		mlr_hint(err, "run mlrun rm there, or mlrun rm --force");
	else
		mlr_hint(err, "run mlrun rm on '%s', or mlrun rm --force", l->host);
	return -EBUSY;
}

static int check_leases(const struct removal *rm, struct mlr_error *err)
{
	struct store_lease l;

	if (has_other_name(rm) || !store_lease_held(rm->st, rm->image.manifest, &l))
		return 0;
	if (!l.is_running)
		return rm->how == STORE_REMOVE_FORCE ? 0 : refuse_unseen(rm, &l, err);
	mlr_fail(err, EBUSY, "image '%s' is in use by process %ld on '%s'", rm->image.name,
		(long)l.pid, l.host);
	mlr_hint(err, "remove it when that process has ended");
	return -EBUSY;
}

/* The name goes before the leases are looked at for good: who takes one later finds no facts. */
static int unname(struct removal *rm, struct mlr_error *err)
{
	int r = check_leases(rm, err); /* most refusals end here, with nothing moved */

	if (r == 0)
		r = throw_away(rm, rm->image_path, err);
	if (r < 0 || has_other_name(rm))
		return r;
	r = throw_away(rm, rm->facts_path, err);
	if (r == 0)
		r = check_leases(rm, err);
	if (r < 0)
		take_back(rm);
	return r;
}

static int remove_locked(struct removal *rm, const struct oci_ref *ref, struct mlr_error *err)
{
	int r = look(rm, ref, err);

	if (r == 0)
		r = name_trash(rm, err);
	if (r == 0)
		r = unname(rm, err);
	if (r < 0)
		return r;
	file_sync_dir(store_fd(rm->st), "images");
	if (!has_other_name(rm))
		store_lease_drop(rm->st, rm->image.manifest);
	for (size_t i = 0; i < rm->go.n && r == 0; i++)
		if (!strv_has(&rm->keep, rm->go.v[i]))
			r = throw_away_for_good(rm, rm->go.v[i], err);
	return r;
}

/* Alone with the store: no pull adds to it. A handle that holds it itself steps back afterwards. */
static int lock_store(struct store *st, int *own, struct mlr_error *err)
{
	static const char what[] = "adding to or removing from this store";
	int r;

	if (st->hold_fd >= 0)
		return store_lock_change(
			st, st->hold_fd, "lock", STORE_LOCK_EXCLUSIVE, what, err);
	r = store_lock(st, "lock", STORE_LOCK_EXCLUSIVE, what, err);
	if (r < 0)
		return r;
	*own = r;
	return 0;
}

int store_image_remove(struct store *st, const struct oci_ref *ref, enum store_remove_how how,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(removal_done) struct removal rm = { .st = st, .how = how };
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

	if (r < 0)
		empty_trash(&rm, NULL);
	else
		r = empty_trash(&rm, err);
	if (r == 0 && ret) {
		*ret = rm.image;
		rm.image = (struct store_image)STORE_IMAGE_INIT;
	}
	return r;
}
