#include "export/owners.h"

#include "base/base.h"
#include "export/pack.h"
#include "layer/path.h"
#include "store/tree.h"

#include <archive_entry.h>
#include <search.h>

/* An entry of a binary tree (tsearch(3)), by path. */
struct owned {
	struct owner owner;
	char path[];
};

struct owners {
	void *root;
	int tree;            /* in which the current layer's paths are resolved */
	char dir[PATH_MAX];  /* the previous member's directory … */
	char real[PATH_MAX]; /* … and the same without symlinks */
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct owned *)a)->path, ((const struct owned *)b)->path);
}

static struct owned *owned_new(const char *path)
{
	size_t n = strlen(path) + 1;
	struct owned *e = xcalloc(1, sizeof(*e) + n);

	memcpy(e->path, path, n);
	return e;
}

const struct owner *owners_find(const struct owners *o, const char *path)
{
	auto_free struct owned *key = owned_new(path);
	struct owned **found = tfind(key, &o->root, by_path);

	return found ? &(*found)->owner : NULL;
}

/* The path with symlinks resolved, as the walk of the trees finds it, to free(); NULL if it leads
 * nowhere. */
static char *real_path(struct owners *o, const char *name)
{
	char path[PATH_MAX];
	const char *slash;
	size_t len;
	int fd;

	if (!name || layer_path_clean(name, path, NULL) < 0)
		return NULL;
	slash = strrchr(path, '/');
	if (!slash)
		return xstrdup(path);
	len = (size_t)(slash - path);
	if (strncmp(o->dir, path, len) != 0 || o->dir[len]) {
		snprintf(o->dir, sizeof(o->dir), "%.*s", (int)len, path);
		fd = layer_path_walk(o->tree, o->dir, NULL, NULL, o->real, NULL);
		if (fd < 0)
			strcpy(o->real, o->dir); /* hidden, or not searchable */
		else
			close(fd);
	}
	return xasprintf("%s%s%s", o->real, *o->real ? "/" : "", slash + 1);
}

/* A hard link has the attributes of its file. */
static int remember(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	struct owners *o = ctx;
	auto_free char *path = real_path(o, archive_entry_pathname(e));
	auto_free char *target = real_path(o, archive_entry_hardlink(e));
	const struct owner *same = target ? owners_find(o, target) : NULL;
	struct owner owner = { archive_entry_uid(e), archive_entry_gid(e),
		archive_entry_perm(e) & 07777 };
	struct owned *new, **found;

	(void)err;
	if (!path || (target && !same))
		return 0;
	if (same)
		owner = *same;
	new = owned_new(path);
	found = tsearch(new, &o->root, by_path);
	if (!found)
		mlr_oom();
	if (*found != new)
		free(new);
	(*found)->owner = owner;
	return 0;
}

/* The tar's bytes count only for its digest. */
static int discard(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	const int *cancel = ctx;

	(void)buf;
	(void)len;
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED)
		? mlr_fail(err, ECANCELED, "interrupted")
		: 0;
}

static int read_layer(struct owners *o, struct store *st, const char *diff_id, int flat,
	const int *cancel, struct mlr_error *err)
{
	auto_close int tree = flat < 0 ? store_tree_open(st, STORE_LAYER, diff_id, err) : -1;
	int r;

	o->tree = flat < 0 ? tree : flat;
	o->dir[0] = o->real[0] = '\0';
	if (o->tree < 0)
		return o->tree;
	r = pack_rebuild(st, diff_id, discard, (void *)cancel, err);
	return r < 0 ? r : pack_headers(st, diff_id, remember, o, err);
}

void owners_free(struct owners *o)
{
	if (!o)
		return;
	tdestroy(o->root, free);
	free(o);
}

int owners_read(struct store *st, const struct strv *diff_ids, int flat, const int *cancel,
	struct owners **ret, struct mlr_error *err)
{
	struct owners *o = xcalloc(1, sizeof(*o));
	int r = 0;

	for (size_t i = 0; r == 0 && i < diff_ids->n; i++)
		r = read_layer(o, st, diff_ids->v[i], flat, cancel, err);
	if (r < 0) {
		owners_free(o);
		return r;
	}
	*ret = o;
	return 0;
}
