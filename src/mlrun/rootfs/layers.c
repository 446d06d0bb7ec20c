#include "rootfs/layers.h"

#include "base/owners_file.h"
#include "layer/changes.h"
#include "oci/digest.h"
#include "rootfs/flatten.h"
#include "store/open_dirs.h"

#define NOTE_MAX (64u << 20) /* bytes; more than layer_unpack() remembers */

struct note {
	char *text; /* a NUL after each path */
	size_t len;
};

static void note_done(struct note *n)
{
	free(n->text);
}

static char *note_text(const struct strv *l, size_t *ret)
{
	size_t len = 0, at = 0;
	char *buf;

	for (size_t i = 0; i < l->n; i++)
		len += strlen(l->v[i]) + 1;
	buf = xmalloc(len);
	for (size_t i = 0; i < l->n; i++) {
		strcpy(buf + at, l->v[i]);
		at += strlen(l->v[i]) + 1;
	}
	*ret = len;
	return buf;
}

/* Hash both notes as one text. The name '\1' between them occurs in neither, so the texts cannot be
 * split in another way. */
static void sum_notes(
	const struct note *implicit, const struct note *hiding, char hex[HASH_HEX_SIZE])
{
	auto_hash struct hash *h = hash_new();

	hash_update(h, implicit->text, implicit->len);
	hash_update(h, "\1", 2);
	hash_update(h, hiding->text, hiding->len);
	hash_final(h, hex);
}

int rootfs_layer_note(struct store_tree *t, const struct layer_result *r, struct mlr_error *err)
{
	auto_call(note_done) struct note implicit = { NULL, 0 }, hiding = { NULL, 0 },
					 open = { NULL, 0 }, owners = { NULL, 0 };
	char hex[HASH_HEX_SIZE];
	int e;

	implicit.text = note_text(&r->implicit, &implicit.len);
	hiding.text = note_text(&r->hiding, &hiding.len);
	sum_notes(&implicit, &hiding, hex);
	e = store_tree_note(t, "implicit", implicit.text, implicit.len, err);
	if (e == 0)
		e = store_tree_note(t, "hiding", hiding.text, hiding.len, err);
	if (e == 0)
		e = store_tree_note(t, "notes", hex, strlen(hex), err);
	if (e == 0 && r->owners.n > 0) {
		owners.text = note_text(&r->owners, &owners.len);
		e = store_tree_note(t, OWNERS_FILE_NAME, owners.text, owners.len, err);
	}
	if (e < 0 || r->open.n == 0)
		return e;
	open.text = note_text(&r->open, &open.len);
	return store_tree_note(t, STORE_OPEN_NOTE, open.text, open.len, err);
}

static int read_note(struct store *st, const char *diff_id, const char *name, struct note *ret,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("layers/%s/%s", oci_digest_hex(diff_id), name);

	return file_read(store_fd(st), path, NOTE_MAX, &ret->text, &ret->len, err);
}

int rootfs_layer_notes_check(struct store *st, const char *diff_id, struct mlr_error *err)
{
	auto_call(note_done) struct note implicit = { NULL, 0 }, hiding = { NULL, 0 },
					 sum = { NULL, 0 };
	char hex[HASH_HEX_SIZE];
	int r = read_note(st, diff_id, "notes", &sum, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	TRY(read_note(st, diff_id, "implicit", &implicit, err));
	TRY(read_note(st, diff_id, "hiding", &hiding, err));
	sum_notes(&implicit, &hiding, hex);
	return strcmp(hex, sum.text) == 0
		? 0
		: mlr_fail(err, EBADMSG, "what was noted beside its tree was changed");
}

static int get_note(struct store *st, const char *diff_id, const char *name, struct strv *ret,
	struct mlr_error *err)
{
	auto_call(note_done) struct note n = { NULL, 0 };
	int r = read_note(st, diff_id, name, &n, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t at = 0; at < n.len; at += strlen(n.text + at) + 1)
		strv_add(ret, n.text + at);
	return 0;
}

static int open_layer(
	struct store *st, const char *diff_id, struct rootfs_layer *l, struct mlr_error *err)
{
	TRY(l->fd = store_tree_open(st, STORE_LAYER, diff_id, err));
	TRY(get_note(st, diff_id, "implicit", &l->implicit, err));
	return get_note(st, diff_id, "hiding", &l->hiding, err);
}

int rootfs_layers_open(struct store *st, const struct strv *diff_ids, struct rootfs_layers *ret,
	struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers l = { 0 };

	l.v = xcalloc(diff_ids->n, sizeof(*l.v));
	for (size_t i = 0; i < diff_ids->n; i++) {
		int r = open_layer(st, diff_ids->v[i], &l.v[l.n++], err);

		if (r < 0)
			return mlr_wrap(err, "layer %s", diff_ids->v[i]);
	}
	*ret = take_struct(&l, { 0 });
	return 0;
}

void rootfs_layers_done(struct rootfs_layers *l)
{
	for (size_t i = 0; i < l->n; i++) {
		fd_close(&l->v[i].fd);
		strv_done(&l->v[i].implicit);
		strv_done(&l->v[i].hiding);
	}
	free(l->v);
	*l = (struct rootfs_layers){ 0 };
}

int rootfs_layer_implies(const struct rootfs_layer *l, const char *path)
{
	return strv_has_sorted(&l->implicit, *path ? path : ".");
}

int rootfs_layer_record(struct store *st, const char *diff_id, struct mlr_error *err)
{
	auto_free char *path = xasprintf("layers/%s/" LAYER_RECORD_NAME, oci_digest_hex(diff_id));
	int fd = openat(store_fd(st), path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? mlr_fail_errno(err, "open '%s/%s'", store_path(st), path) : fd;
}

int rootfs_layer_rebuild(const char *diff_id, int record_fd, int tree_fd, layer_write_fn write,
	void *ctx, struct mlr_error *err)
{
	char is[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	TRY(layer_rebuild(record_fd, tree_fd, write, ctx, is, &bytes, err));
	if (strcmp(is, diff_id) != 0)
		return mlr_fail(
			err, EBADMSG, "its files give a layer of digest %s: one was changed", is);
	return 0;
}

static int take(void *changes, const struct layer_member *m, struct mlr_error *err)
{
	return layer_changes_add(changes, m, LAYER_NO_XATTR, NULL, err);
}

static int add_layer(struct store *st, const char *diff_id, size_t i, const struct rootfs_names *to,
	struct mlr_error *err)
{
	static const struct layer_sink sink = { .file = take, .name = take };
	auto_close int record = rootfs_layer_record(st, diff_id, err);
	auto_call(layer_changes_done) struct layer_changes c = { NULL };

	if (record < 0)
		return record == -ENOENT ? 0 : record;
	TRY(layer_changes_init(&c, to->t, i, err));
	TRY(layer_tar_headers(record, &sink, &c, err));
	return layer_changes_apply(&c, to->top, err);
}

void rootfs_names_done(struct rootfs_names *n)
{
	layer_names_free(n->t);
	*n = (struct rootfs_names){ NULL, NULL };
}

int rootfs_names_read(struct store *st, const struct strv *diff_ids, struct rootfs_names *ret,
	struct mlr_error *err)
{
	auto_call(rootfs_names_done) struct rootfs_names names = {
		layer_names_new(LAYER_NAMES_MEMORY), NULL
	};

	names.top = layer_names_top(names.t, err);
	if (!names.top)
		return layer_names_failed(err);
	for (size_t i = 0; i < diff_ids->n; i++)
		if (add_layer(st, diff_ids->v[i], i, &names, err) < 0)
			return mlr_wrap(err, "layer %s", diff_ids->v[i]);
	*ret = names;
	names.t = NULL;
	return 0;
}
