#include "store/json.h"

#include "store/guard.h"
#include "store/handle.h"

/*
 * With FUSE file systems that keep paths (bindfs, sshfs), a file that is being replaced is missing
 * for a moment while its directory lists it. A file that was replaced all the time on bindfs was
 * missed by 83 of 1000 reads. On a busy machine that moment lasts as long as the server waits for a
 * CPU.
 */
#define WAIT_MS 10000
#define NAP_MS  1

int store_json_bad(struct store *st, const char *path, const char *why, struct mlr_error *err)
{
	mlr_fail(err, EPROTO, "'%s/%s' is damaged: %s", store_path(st), path, why);
	mlr_hint(err, "delete that file; if it is an image's, pull the image again");
	return -EPROTO;
}

static int is_listed(struct store *st, const char *path)
{
	auto_free char *dir = path_dir(path);
	auto_dir DIR *d = file_open_dir(store_fd(st), dir, 0);

	for (struct dirent *e; (e = file_next(d));)
		if (strcmp(e->d_name, path_base(path)) == 0)
			return 1;
	return 0;
}

/* Read a file, waiting for one that is being replaced (WAIT_MS). */
static int read_text(
	struct store *st, const char *path, char **text, size_t *len, struct mlr_error *err)
{
	int64_t until = 0;
	int r;

	while ((r = file_read(store_fd(st), path, STORE_JSON_MAX, text, len, err)) == -ENOENT &&
		is_listed(st, path)) {
		if (until == 0)
			until = mlr_now_ms() + WAIT_MS;
		else if (mlr_now_ms() > until)
			break;
		mlr_sleep_ms(NAP_MS);
	}
	return r;
}

int store_json_read(struct store *st, const char *path, json_t **ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	json_auto_t *o = NULL;
	json_error_t je;
	struct stat sb;
	size_t len;
	int r = read_text(st, path, &text, &len, err);

	if (r < 0) {
		mlr_wrap(err, "store '%s'", store_path(st));
		return r;
	}
	if (st->others_enter && fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) == 0)
		TRY(store_guard_file(st, path, &sb, err));
	o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	if (!o)
		return store_json_bad(st, path, je.text, err);
	if (!json_is_object(o))
		return store_json_bad(st, path, "not an object", err);
	*ret = take_ptr(&o);
	return 0;
}

/*
 * If the file has this text already, set its time and sync the directory, since its writer may not
 * have done so yet. Replacing it could hide it from readers (WAIT_MS).
 */
static int renew(struct store *st, const char *path, const char *text)
{
	auto_free char *there = NULL, *dir = xasprintf("%.*s", (int)strcspn(path, "/"), path);
	size_t len;

	return file_read(store_fd(st), path, STORE_JSON_MAX, &there, &len, NULL) == 0 &&
		len == strlen(text) && memcmp(there, text, len) == 0 &&
		utimensat(store_fd(st), path, NULL, 0) == 0 &&
		file_sync_dir(store_fd(st), dir) == 0;
}

int store_json_write(struct store *st, const char *path, const json_t *o, struct mlr_error *err)
{
	auto_free char *text = json_dumps(o, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	int r;

	if (!text)
		return mlr_fail(err, ENOMEM, "write '%s': no memory for its JSON", path);
	if (renew(st, path, text))
		return 0;
	r = file_replace(store_fd(st), path, text, strlen(text), 0644, err);
	if (r < 0)
		mlr_wrap(err, "store '%s'", store_path(st));
	return r;
}

int store_json_take(struct store *st, const char *path, const struct record_row *rows, void *to,
	struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	const struct record_reader r = { .err = &why };
	json_auto_t *o = NULL;

	TRY(store_json_read(st, path, &o, err));
	return record_read(&r, rows, o, to) < 0 ? store_json_bad(st, path, why.text, err) : 0;
}

int store_json_put(struct store *st, const char *path, const struct record_row *rows,
	const void *from, struct mlr_error *err)
{
	json_auto_t *o = record_write(rows, from);

	return store_json_write(st, path, o, err);
}
