#include "rootfs/layers.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "oci/digest.h"
#include "rootfs/flatten.h"
#include "store/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NOTE_MAX (64u << 20) /* bytes; more than layer_unpack() can remember */

static int put_note(
	struct store_tree *t, const char *name, const struct strv *l, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	size_t len = 0, at = 0;

	for (size_t i = 0; i < l->n; i++)
		len += strlen(l->v[i]) + 1;
	buf = xmalloc(len);
	for (size_t i = 0; i < l->n; i++) {
		strcpy(buf + at, l->v[i]);
		at += strlen(l->v[i]) + 1;
	}
	return store_tree_note(t, name, buf, len, err);
}

int rootfs_layer_note(struct store_tree *t, const struct layer_result *r, struct mlr_error *err)
{
	int e = put_note(t, "implicit", &r->implicit, err);

	return e < 0 ? e : put_note(t, "hiding", &r->hiding, err);
}

static int get_note(struct store *st, const char *diff_id, const char *name, struct strv *ret,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("layers/%s/%s", oci_digest_hex(diff_id), name),
		       *buf = NULL;
	size_t len;
	int r = file_read(store_fd(st), path, NOTE_MAX, &buf, &len, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	for (size_t at = 0; at < len; at += strlen(buf + at) + 1)
		strv_add(ret, buf + at);
	return 0;
}

static int open_layer(
	struct store *st, const char *diff_id, struct rootfs_layer *l, struct mlr_error *err)
{
	int r = store_tree_open(st, STORE_LAYER, diff_id, err);

	if (r < 0)
		return r;
	l->fd = r;
	r = get_note(st, diff_id, "implicit", &l->implicit, err);
	return r < 0 ? r : get_note(st, diff_id, "hiding", &l->hiding, err);
}

int rootfs_layers_open(struct store *st, const struct strv *diff_ids, struct rootfs_layers *ret,
	struct mlr_error *err)
{
	auto_call(rootfs_layers_done) struct rootfs_layers l = ROOTFS_LAYERS_INIT;

	l.v = xcalloc(diff_ids->n, sizeof(*l.v));
	for (size_t i = 0; i < diff_ids->n; i++) {
		int r;

		l.v[l.n++].fd = -1;
		r = open_layer(st, diff_ids->v[i], &l.v[i], err);
		if (r < 0) {
			mlr_wrap(err, "layer %s", diff_ids->v[i]);
			return r;
		}
	}
	*ret = l;
	l = (struct rootfs_layers)ROOTFS_LAYERS_INIT;
	return 0;
}

void rootfs_layers_done(struct rootfs_layers *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].fd >= 0)
			close(l->v[i].fd);
		strv_done(&l->v[i].implicit);
		strv_done(&l->v[i].hiding);
	}
	free(l->v);
	*l = (struct rootfs_layers)ROOTFS_LAYERS_INIT;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int rootfs_layer_implies(const struct rootfs_layer *l, const char *path)
{
	const char *key = *path ? path : ".";

	return l->implicit.n &&
		bsearch(&key, l->implicit.v, l->implicit.n, sizeof(char *), by_text) != NULL;
}
