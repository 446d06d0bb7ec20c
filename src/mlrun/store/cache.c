#include "store/cache.h"

#include "oci/steps.h"
#include "store/json.h"
#include "store/tree.h"

#define CACHE_PATH (sizeof("cache/.json") + 64)

static void path_of(const char *key, char path[CACHE_PATH])
{
	snprintf(path, CACHE_PATH, "cache/%.64s.json", oci_digest_hex(key));
}

/* --- steps ------------------------------------------------------------------------ */

static const struct record_row step_rows[] = {
	{ "layer", RECORD_CHARS, RECORD_AT(struct store_cached, diff_id), .flags = RECORD_NULL },
	{ "size", RECORD_NUMBER, RECORD_AT(struct store_cached, size), .flags = RECORD_MUST },
	{ "created", RECORD_NUMBER, RECORD_AT(struct store_cached, created), .flags = RECORD_MUST,
		.max = OCI_STEP_TIME_MAX },
	{ NULL },
};

static int load(struct store *st, const char *path, struct store_cached *ret)
{
	*ret = (struct store_cached){ "" };
	return store_json_take(st, path, step_rows, ret, NULL) < 0 ||
			(*ret->diff_id && oci_digest_check(ret->diff_id, NULL) < 0)
		? -ENOENT
		: 0;
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

static int put(struct store *st, const char *key, const struct record_row *rows, const void *from,
	struct mlr_error *err)
{
	char path[CACHE_PATH];

	path_of(key, path);
	if (mkdirat(store_fd(st), "cache", 0755) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "create directory '%s/cache'", store_path(st));
	return store_json_put(st, path, rows, from, err);
}

int store_cache_put(
	struct store *st, const char *key, const struct store_cached *step, struct mlr_error *err)
{
	return put(st, key, step_rows, step, err);
}

/* --- contents and blobs ------------------------------------------------------------ */

static const struct record_row content_rows[] = {
	{ "content", RECORD_CHARS, .size = HASH_HEX_SIZE, .flags = RECORD_MUST },
	{ NULL },
};

int store_cache_content_get(struct store *st, const char *key, char hex[HASH_HEX_SIZE])
{
	char path[CACHE_PATH], content[HASH_HEX_SIZE] = "";

	path_of(key, path);
	if (store_json_take(st, path, content_rows, content, NULL) < 0 ||
		strlen(content) != HASH_HEX_SIZE - 1)
		return -ENOENT;
	memcpy(hex, content, HASH_HEX_SIZE);
	utimensat(store_fd(st), path, NULL, 0);
	return 0;
}

int store_cache_content_put(
	struct store *st, const char *key, const char *hex, struct mlr_error *err)
{
	return put(st, key, content_rows, hex, err);
}

static const struct record_row blob_rows[] = {
	{ "blob", RECORD_CHARS, RECORD_AT(struct store_cache_blob, digest), .flags = RECORD_MUST },
	{ "bytes", RECORD_NUMBER, RECORD_AT(struct store_cache_blob, size), .flags = RECORD_MUST },
	{ "places", RECORD_TEXTS, RECORD_AT(struct store_cache_blob, places) },
	{ NULL },
};

void store_cache_blob_done(struct store_cache_blob *b)
{
	record_done(blob_rows, b);
}

int store_cache_blob_get(struct store *st, const char *key, struct store_cache_blob *ret)
{
	char path[CACHE_PATH];

	path_of(key, path);
	if (store_json_take(st, path, blob_rows, ret, NULL) < 0 ||
		oci_digest_check(ret->digest, NULL) < 0)
		return -ENOENT;
	utimensat(store_fd(st), path, NULL, 0);
	return 0;
}

int store_cache_blob_put(
	struct store *st, const char *key, const struct store_cache_blob *b, struct mlr_error *err)
{
	return put(st, key, blob_rows, b, err);
}

/* --- directories --------------------------------------------------------------------- */

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
	struct stat sb;

	for (struct dirent *e; (e = file_next(d));) {
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

	for (struct dirent *e; (e = file_next(d));)
		if (e->d_name[0] != '.')
			keep_one(st, e->d_name, oldest, keep);
	keep_mounts(st, oldest);
}
