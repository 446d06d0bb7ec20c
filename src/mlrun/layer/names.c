#include "layer/names.h"

#include <sys/random.h>

#define CHUNK_SIZE (256u << 10)
#define LINKS_MAX  40   /* the kernel's own limit, path_resolution(7) */
#define DEPTH_MAX  2048 /* a path of PATH_MAX bytes has no more names */

struct chunk {
	struct chunk *next;
	size_t used, size;
	char bytes[] __attribute__((aligned(16)));
};

/* Names are in one hash table for all directories, keyed by directory and name. */
struct layer_names {
	struct chunk *chunks;
	size_t memory, memory_max;
	struct layer_name **buckets;
	size_t n_buckets, n_nodes; /* a power of two */
	uint64_t seed;             /* random, since strangers choose the names */
};

struct layer_names *layer_names_new(size_t memory)
{
	struct layer_names *t = xcalloc(1, sizeof(*t));

	t->memory_max = memory;
	t->n_buckets = 1024;
	t->buckets = xcalloc(t->n_buckets, sizeof(*t->buckets));
	if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) < 0)
		t->seed = (uint64_t)(uintptr_t)t;
	return t;
}

void layer_names_free(struct layer_names *t)
{
	if (!t)
		return;
	while (t->chunks) {
		struct chunk *next = t->chunks->next;

		set_ptr(&t->chunks, next);
	}
	free(t->buckets);
	free(t);
}

void *layer_names_alloc(struct layer_names *t, size_t size, struct mlr_error *err)
{
	struct chunk *c = t->chunks;
	void *p;

	size = (size + 7) & ~(size_t)7;
	if (!c || c->size - c->used < size) {
		size_t left = t->memory_max - t->memory,
		       least = CHUNK_SIZE < left ? CHUNK_SIZE : left,
		       room = size > least ? size : least;

		if (room > left) {
			mlr_fail(err, EFBIG, "more files than %zu MiB of memory can describe",
				t->memory_max >> 20);
			return NULL;
		}
		c = calloc(1, sizeof(*c) + room);
		if (!c) {
			mlr_fail(err, ENOMEM, "no memory for %zu bytes of file names", room);
			return NULL;
		}
		c->size = room;
		c->next = t->chunks;
		t->chunks = c;
		t->memory += room;
	}
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

static size_t bucket_of(
	const struct layer_names *t, const struct layer_name *dir, const char *name, size_t len)
{
	uint64_t h = t->seed ^ (uint64_t)(uintptr_t)dir;

	for (size_t i = 0; i < len; i++) /* FNV-1a with a secret start */
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
	h ^= h >> 32;
	return (size_t)((h * 0x9e3779b97f4a7c15u) >> 20) & (t->n_buckets - 1);
}

static void link_hash(struct layer_names *t, struct layer_name *n)
{
	size_t i = bucket_of(t, n->parent, n->name, n->len);

	n->chain = t->buckets[i];
	t->buckets[i] = n;
}

static void unlink_hash(struct layer_names *t, struct layer_name *n)
{
	struct layer_name **p = &t->buckets[bucket_of(t, n->parent, n->name, n->len)];

	while (*p != n)
		p = &(*p)->chain;
	*p = n->chain;
}

/* Double the buckets. Without memory for that, the chains grow longer. */
static void grow(struct layer_names *t)
{
	struct layer_name **old = t->buckets, **v = calloc(2 * t->n_buckets, sizeof(*v));
	size_t n = t->n_buckets;

	if (!v)
		return;
	t->buckets = v;
	t->n_buckets = 2 * n;
	for (size_t i = 0; i < n; i++)
		while (old[i]) {
			struct layer_name *node = old[i];

			old[i] = node->chain;
			link_hash(t, node);
		}
	free(old);
}

static void link_child(struct layer_name *dir, struct layer_name *n)
{
	n->parent = dir;
	n->next = NULL;
	n->prev = dir->last;
	if (dir->last)
		dir->last->next = n;
	else
		dir->child = n;
	dir->last = n;
}

static void unlink_child(struct layer_name *n)
{
	struct layer_name *dir = n->parent;

	*(n->prev ? &n->prev->next : &dir->child) = n->next;
	*(n->next ? &n->next->prev : &dir->last) = n->prev;
}

int layer_names_failed(const struct mlr_error *err)
{
	return err && err->code ? -err->code : -ENOMEM;
}

struct layer_inode *layer_names_inode(
	struct layer_names *t, enum layer_kind kind, unsigned mode, struct mlr_error *err)
{
	struct layer_inode *i = layer_names_alloc(t, sizeof(*i), err);

	if (!i)
		return NULL;
	i->kind = kind;
	i->mode = mode & 07777;
	i->xattr = LAYER_NO_XATTR;
	return i;
}

struct layer_name *layer_names_top(struct layer_names *t, struct mlr_error *err)
{
	struct layer_name *n = layer_names_alloc(t, sizeof(*n) + 1, err);

	if (!n)
		return NULL;
	n->implied = 1;
	n->inode = layer_names_inode(t, LAYER_DIR, 0755, err);
	return n->inode ? n : NULL;
}

enum layer_kind layer_names_kind(const struct layer_name *n)
{
	return n->inode ? n->inode->kind : LAYER_WHITEOUT;
}

struct layer_name *layer_names_find(
	const struct layer_names *t, const struct layer_name *dir, const char *name, size_t len)
{
	struct layer_name *n = t->buckets[bucket_of(t, dir, name, len)];

	while (n && !(n->parent == dir && n->len == len && memcmp(n->name, name, len) == 0))
		n = n->chain;
	return n;
}

struct layer_name *layer_names_at(
	const struct layer_names *t, struct layer_name *top, const char *path)
{
	struct layer_name *n = top;
	size_t len;

	if (strcmp(path, ".") == 0)
		return top;
	for (; n && *path; path += len, path += *path == '/') {
		len = strcspn(path, "/");
		n = layer_names_find(t, n, path, len);
	}
	return n;
}

char *layer_names_path(const struct layer_name *n)
{
	size_t len = 0;
	char *s, *p;

	if (!n->parent)
		return xstrdup(".");
	for (const struct layer_name *d = n; d->parent; d = d->parent)
		len += (size_t)d->len + 1;
	p = s = xmalloc(len);
	for (p += len - 1, *p = '\0'; n->parent; n = n->parent) {
		p -= n->len;
		memcpy(p, n->name, n->len);
		if (p > s)
			*--p = '/';
	}
	return s;
}

struct layer_name *layer_names_add(struct layer_names *t, struct layer_name *dir, const char *name,
	size_t len, struct layer_inode *inode, struct mlr_error *err)
{
	struct layer_name *n;

	if (len > NAME_MAX) {
		mlr_fail(err, ENAMETOOLONG, "a name longer than %d bytes", NAME_MAX);
		return NULL;
	}
	n = layer_names_alloc(t, sizeof(*n) + len + 1, err);
	if (!n)
		return NULL;
	n->inode = inode;
	n->len = (uint8_t)len;
	memcpy(n->name, name, len);
	link_child(dir, n);
	link_hash(t, n);
	if (++t->n_nodes > t->n_buckets)
		grow(t);
	return n;
}

/* The nodes below stay in the hash table, but unreachable: nothing looks up their parent again. */
void layer_names_remove(struct layer_names *t, struct layer_name *n)
{
	unlink_hash(t, n);
	unlink_child(n);
}

void layer_names_move(struct layer_names *t, struct layer_name *n, struct layer_name *to)
{
	layer_names_remove(t, n);
	link_child(to, n);
	link_hash(t, n);
}

int layer_names_get(struct layer_names *t, struct layer_name *top, const char *path,
	struct layer_name **ret, struct mlr_error *err)
{
	struct layer_name *dir = top, *n;

	for (size_t len; *path; path += len, path += *path == '/', dir = n) {
		struct layer_inode *inode = NULL;

		len = strcspn(path, "/");
		n = layer_names_find(t, dir, path, len);
		if (!n)
			inode = layer_names_inode(t, LAYER_DIR, 0755, err);
		if (inode)
			n = layer_names_add(t, dir, path, len, inode, err);
		if (!n)
			return layer_names_failed(err);
	}
	*ret = dir;
	return 0;
}

/* The state of a walk: at cur, with rest to go. */
struct walk {
	struct layer_names *t;
	struct layer_name *top, *cur;
	char rest[PATH_MAX];
	int links, depth, make;
};

/* Cut the first name off rest, into name. Returns its length, or 0 if there is none. */
static size_t next_name(struct walk *w, char name[PATH_MAX])
{
	char *s = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(s, "/");

	memcpy(name, s, len);
	name[len] = '\0';
	memmove(w->rest, s + len, strlen(s + len) + 1);
	return len;
}

/* Put a symlink's target in front of the rest. */
static int follow(struct walk *w, const char *target)
{
	size_t n = strlen(target), left = strlen(w->rest);

	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (n + 1 + left + 1 > PATH_MAX)
		return -ENAMETOOLONG;
	memmove(w->rest + n + 1, w->rest, left + 1);
	memcpy(w->rest, target, n);
	w->rest[n] = '/';
	if (target[0] == '/') {
		w->cur = w->top;
		w->depth = 0;
	}
	return 0;
}

static int make_dir(struct walk *w, const char *name, size_t len, struct layer_name *whiteout,
	struct mlr_error *err)
{
	struct layer_inode *inode = layer_names_inode(w->t, LAYER_DIR, 0755, err);
	struct layer_name *n;

	if (!inode)
		return -ENOMEM;
	if (whiteout)
		layer_names_remove(w->t, whiteout);
	n = layer_names_add(w->t, w->cur, name, len, inode, err);
	if (!n)
		return -ENOMEM;
	n->implied = !whiteout;
	n->opaque = whiteout != NULL;
	w->cur = n;
	w->depth++;
	return 0;
}

static int go_up(struct walk *w)
{
	if (w->cur != w->top) { /* ".." in "/" is "/" */
		w->cur = w->cur->parent;
		w->depth--;
	}
	return 0;
}

static int step(struct walk *w, const char *name, size_t len, struct mlr_error *err)
{
	struct layer_name *n;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		return go_up(w);
	if (len > NAME_MAX || w->depth >= DEPTH_MAX)
		return -ENAMETOOLONG;
	n = layer_names_find(w->t, w->cur, name, len);
	if (!n || layer_names_kind(n) == LAYER_WHITEOUT)
		return w->make ? make_dir(w, name, len, n, err) : -ENOENT;
	if (layer_names_kind(n) == LAYER_SYMLINK)
		return follow(w, n->inode->target);
	if (layer_names_kind(n) != LAYER_DIR)
		return -ENOTDIR;
	w->cur = n;
	w->depth++;
	return 0;
}

int layer_names_walk(struct layer_names *t, struct layer_name *top, const char *path, int make,
	struct layer_name **ret, struct mlr_error *err)
{
	struct walk w = { .t = t, .top = top, .cur = top, .make = make };
	struct mlr_error why = MLR_ERROR_INIT;
	char name[PATH_MAX];
	size_t len;

	if (strlen(path) >= sizeof(w.rest))
		return mlr_fail(err, ENAMETOOLONG, "a path longer than %d bytes", PATH_MAX - 1);
	strcpy(w.rest, path);
	while ((len = next_name(&w, name)) > 0) {
		int r = step(&w, name, len, &why);

		if (r < 0 && why.code) { /* no memory: reported already */
			if (err)
				*err = why;
			return -why.code;
		}
		if (r < 0)
			return mlr_result(err, r, "directory '%.200s'", name);
	}
	*ret = w.cur;
	return 0;
}
