#include "store/open_dirs.h"

#include "oci/digest.h"
#include "store/tree.h"

#define NOTE_MAX (64u << 20) /* bytes; the writer of layers remembers fewer */

/* Add the strings of a note beside a layer's tree, a NUL after each; none without the file. */
static int read_note(struct store *st, const char *diff_id, const char *name, struct strv *ret,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("layers/%s/%s", oci_digest_hex(diff_id), name);
	auto_free char *text = NULL;
	size_t len = 0;
	int r = file_read(store_fd(st), path, NOTE_MAX, &text, &len, err);

	for (size_t at = 0; r == 0 && at < len; at += strlen(text + at) + 1)
		strv_add(ret, text + at);
	return r == -ENOENT ? 0 : r;
}

/* Does a layer keep this directory of the layers below? Yes if it lacks it, or only uses it
 * implicitly. */
static int leaves(struct store *st, const char *diff_id, const char *path)
{
	auto_strv struct strv implicit = STRV_INIT;
	auto_free char *full = xasprintf("layers/%s/tree/%s", oci_digest_hex(diff_id), path);
	struct stat sb;

	if (fstatat(store_fd(st), full, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	return S_ISDIR(sb.st_mode) && read_note(st, diff_id, "implicit", &implicit, NULL) == 0 &&
		strv_has(&implicit, path);
}

static int is_ascii(const char *s)
{
	while (*s && (unsigned char)*s < 0x80)
		s++;
	return !*s;
}

static void add(struct store *st, const struct strv *diff_ids, size_t layer, const char *note,
	struct strv *ret)
{
	const char *space = strchr(note, ' '), *path = space ? space + 1 : "";
	auto_free char *entry = xasprintf(
		"%.*s /%s", (int)(path - note) - 1, note, strcmp(path, ".") == 0 ? "" : path);

	if (!*path || ret->n == STORE_OPEN_MAX || !is_ascii(path))
		return;
	for (size_t i = layer + 1; i < diff_ids->n; i++)
		if (!leaves(st, diff_ids->v[i], path))
			return;
	if (!strv_has(ret, entry))
		strv_take(ret, take_ptr(&entry));
}

/* Resolve the paths in an image that is kept as one tree only: a symlink of one layer can redirect
 * paths of another. */
static int lead(struct store *st, const char *manifest, struct strv *open, struct mlr_error *err)
{
	auto_close int tree = store_tree_open(st, STORE_DIR, manifest, err);
	auto_strv struct strv led = STRV_INIT;

	if (tree < 0)
		return tree;
	for (size_t i = 0; i < open->n; i++) {
		char *path = strchr(open->v[i], '/'), *name = strrchr(path, '/');
		auto_free char *dir = xstrndup(path, (size_t)(name - path));
		auto_close int fd =
			file_open_in_root(tree, *dir ? dir : "/", O_PATH | O_DIRECTORY, 0);
		auto_free char *top = file_fd_path(tree), *real = fd < 0 ? NULL : file_fd_path(fd);

		if (top && real && strncmp(real, top, strlen(top)) == 0)
			strv_addf(&led, "%.*s%s%s", (int)(path - open->v[i]), open->v[i],
				real + strlen(top), name);
	}
	strv_done(open);
	*open = take_struct(&led, STRV_INIT);
	return 0;
}

int store_open_dirs(struct store *st, const char *manifest, const struct store_facts *f,
	struct strv *ret, struct mlr_error *err)
{
	const struct strv *diff_ids = &f->config.diff_ids;
	int r = 0;

	for (size_t i = 0; r == 0 && i < diff_ids->n; i++) {
		auto_strv struct strv notes = STRV_INIT;

		r = read_note(st, diff_ids->v[i], STORE_OPEN_NOTE, &notes, err);
		for (size_t j = 0; r == 0 && j < notes.n; j++)
			add(st, diff_ids, i, notes.v[j], ret);
	}
	if (r == 0 && (f->formats & STORE_FORMAT_DIR) && !(f->formats & STORE_FORMAT_LAYERS))
		r = lead(st, manifest, ret, err);
	return r;
}
