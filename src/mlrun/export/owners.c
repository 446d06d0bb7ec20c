#include "export/owners.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "export/pack.h"
#include "layer/path.h"
#include "store/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* The thread that writes a layer's tar into a pipe. */
struct pour {
	struct store *st;
	const char *diff_id;
	const int *cancel;
	int fd;
	int result;
	struct mlr_error err;
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

static int write_pipe(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct pour *p = ctx;
	int r;

	if (p->cancel && __atomic_load_n(p->cancel, __ATOMIC_RELAXED))
		return mlr_fail(err, ECANCELED, "interrupted");
	r = file_write_all(p->fd, buf, len);
	return r < 0 ? mlr_fail(err, -r, "write to a pipe: %s", strerror(-r)) : 0;
}

static void *pour_main(void *ctx)
{
	struct pour *p = ctx;

	p->result = pack_rebuild(p->st, p->diff_id, write_pipe, p, &p->err);
	close(take_fd(&p->fd));
	return NULL;
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
static void remember(struct owners *o, struct archive_entry *e)
{
	auto_free char *path = real_path(o, archive_entry_pathname(e));
	auto_free char *target = real_path(o, archive_entry_hardlink(e));
	const struct owner *same = target ? owners_find(o, target) : NULL;
	struct owner owner = { archive_entry_uid(e), archive_entry_gid(e),
		archive_entry_perm(e) & 07777 };
	struct owned *new, **found;

	if (!path || (target && !same))
		return;
	if (same)
		owner = *same;
	new = owned_new(path);
	found = tsearch(new, &o->root, by_path);
	if (!found)
		mlr_oom();
	if (*found != new)
		free(new);
	(*found)->owner = owner;
}

/* Read the pipe to its end, so that the writer finishes. Errors were reported when the layer was
 * unpacked. */
static void read_headers(struct owners *o, int fd)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	char rest[4096];
	int r;

	if (!a)
		mlr_oom();
	archive_read_support_format_tar(a);
	archive_read_support_format_empty(a);
	r = archive_read_open_fd(a, fd, 64 << 10);
	while (r == ARCHIVE_OK || r == ARCHIVE_WARN) {
		r = archive_read_next_header(a, &e);
		if (r == ARCHIVE_OK || r == ARCHIVE_WARN)
			remember(o, e);
	}
	archive_read_free(a);
	while (read(fd, rest, sizeof(rest)) > 0)
		;
}

static int read_layer(struct owners *o, struct store *st, const char *diff_id, int flat,
	const int *cancel, struct mlr_error *err)
{
	auto_close int tree = flat < 0 ? store_tree_open(st, STORE_LAYER, diff_id, err) : -1;
	struct pour p = { .st = st, .diff_id = diff_id, .cancel = cancel, .err = MLR_ERROR_INIT };
	auto_close int from = -1;
	pthread_t thread;
	int ends[2], r;

	o->tree = flat < 0 ? tree : flat;
	o->dir[0] = o->real[0] = '\0';
	if (o->tree < 0)
		return o->tree;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	from = ends[0];
	p.fd = ends[1];
	r = pthread_create(&thread, NULL, pour_main, &p);
	if (r != 0) {
		close(p.fd);
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	}
	read_headers(o, from);
	pthread_join(thread, NULL);
	if (p.result < 0 && err)
		*err = p.err;
	return p.result;
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
