#include "store/cache.h"

#include "base/base.h"
#include "base/json.h"
#include "oci/json.h"
#include "oci/steps.h"
#include "store/json.h"
#include "store/tree.h"

#define CACHE_PATH (sizeof("cache/.json") + 64)

static void path_of(const char *key, char path[CACHE_PATH])
{
	snprintf(path, CACHE_PATH, "cache/%.64s.json", oci_digest_hex(key));
}

static int load(struct store *st, const char *path, struct store_cached *ret)
{
	json_auto_t *o = NULL;
	const json_t *size, *created;
	auto_free char *layer = NULL;

	if (store_json_read(st, path, &o, NULL) < 0)
		return -ENOENT;
	size = json_object_get(o, "size");
	created = json_object_get(o, "created");
	if (store_json_string(o, "layer", &layer) < 0 || !json_is_integer(size) ||
		!json_is_integer(created) || (layer && oci_digest_check(layer, NULL) < 0))
		return -ENOENT;
	snprintf(ret->diff_id, sizeof(ret->diff_id), "%s", layer ? layer : "");
	if (json_integer_value(created) < 0 || json_integer_value(created) > OCI_STEP_TIME_MAX)
		return -ENOENT;
	ret->size = (uint64_t)json_integer_value(size);
	ret->created = json_integer_value(created);
	return 0;
}

int store_cache_get(struct store *st, const char *key, struct store_cached *ret)
{
	char path[CACHE_PATH];
	int r;

	path_of(key, path);
	r = load(st, path, ret);
	if (r < 0 || (*ret->diff_id && !store_tree_exists(st, STORE_LAYER, ret->diff_id)))
		return -ENOENT;
	utimensat(store_fd(st), path, NULL, 0); /* best effort: a store may be read-only */
	return 0;
}

/* Steals the object. */
static int put(struct store *st, const char *key, json_t *stolen, struct mlr_error *err)
{
	json_auto_t *o = stolen;
	char path[CACHE_PATH];

	path_of(key, path);
	if (mkdirat(store_fd(st), "cache", 0755) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "create directory '%s/cache'", store_path(st));
	return store_json_write(st, path, o, err);
}

int store_cache_put(
	struct store *st, const char *key, const struct store_cached *step, struct mlr_error *err)
{
	return put(st, key,
		json_pack("{s:s?, s:I, s:I}", "layer", *step->diff_id ? step->diff_id : NULL,
			"size", (json_int_t)step->size, "created", (json_int_t)step->created),
		err);
}

int store_cache_content_get(struct store *st, const char *key, char hex[HASH_HEX_SIZE])
{
	char path[CACHE_PATH];
	json_auto_t *o = NULL;
	auto_free char *content = NULL;

	path_of(key, path);
	if (store_json_read(st, path, &o, NULL) < 0 ||
		store_json_string(o, "content", &content) < 0 || !content ||
		strlen(content) != HASH_HEX_SIZE - 1)
		return -ENOENT;
	memcpy(hex, content, HASH_HEX_SIZE);
	utimensat(store_fd(st), path, NULL, 0);
	return 0;
}

int store_cache_content_put(
	struct store *st, const char *key, const char *hex, struct mlr_error *err)
{
	return put(st, key, json_pack("{s:s}", "content", hex), err);
}

void store_cache_blob_done(struct store_cache_blob *b)
{
	strv_done(&b->places);
	*b = (struct store_cache_blob)STORE_CACHE_BLOB_INIT;
}

int store_cache_blob_get(struct store *st, const char *key, struct store_cache_blob *ret)
{
	char path[CACHE_PATH];
	json_auto_t *o = NULL;
	const json_t *bytes;
	auto_free char *digest = NULL;

	path_of(key, path);
	if (store_json_read(st, path, &o, NULL) < 0 || store_json_string(o, "blob", &digest) < 0 ||
		!digest || oci_digest_check(digest, NULL) < 0 ||
		oci_json_texts(o, "places", &ret->places, NULL) < 0)
		return -ENOENT;
	bytes = json_object_get(o, "bytes");
	if (!json_is_integer(bytes))
		return -ENOENT;
	memcpy(ret->digest, digest, OCI_DIGEST_SIZE);
	ret->size = (uint64_t)json_integer_value(bytes);
	utimensat(store_fd(st), path, NULL, 0);
	return 0;
}

int store_cache_blob_put(
	struct store *st, const char *key, const struct store_cache_blob *b, struct mlr_error *err)
{
	return put(st, key,
		json_pack("{s:s, s:I, s:o}", "blob", b->digest, "bytes", (json_int_t)b->size,
			"places", mlr_json_texts(&b->places)),
		err);
}

int store_cache_mount(struct store *st, const char *id, char **ret, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	auto_free char *path = NULL;

	hash_name(id, hex);
	path = xasprintf("cache/mounts/%s", hex);
	TRY(file_mkdir_p(store_fd(st), path, 0700, err));
	utimensat(store_fd(st), path, NULL, 0);
	*ret = xasprintf("%s/%s", store_path(st), path);
	return 0;
}

static void keep_mounts(struct store *st, time_t oldest)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "cache/mounts", 0);
	struct dirent *e;
	struct stat sb;

	while (d && (e = readdir(d))) {
		auto_free char *path = xasprintf("cache/mounts/%s", e->d_name);

		if (e->d_name[0] != '.' &&
			fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			sb.st_mtime < oldest)
			file_remove_tree(store_fd(st), path, NULL);
	}
}

static void keep_one(struct store *st, const char *file, time_t oldest, struct strv *keep)
{
	auto_free char *path = xasprintf("cache/%s", file);
	struct store_cached step;
	struct stat sb;

	if (fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(sb.st_mode))
		return;
	if (sb.st_mtime < oldest)
		unlinkat(store_fd(st), path, 0);
	else if (load(st, path, &step) == 0 && *step.diff_id)
		strv_addf(keep, "layers/%s", oci_digest_hex(step.diff_id));
}

void store_cache_keep(struct store *st, struct strv *keep)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "cache", 0);
	time_t oldest = time(NULL) - STORE_CACHE_DAYS * 24 * 3600;
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			keep_one(st, e->d_name, oldest, keep);
	keep_mounts(st, oldest);
}
