#include "cdi/cache.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "cdi/links.h"
#include "gpu/elf.h"
#include "gpu/inject/ldcache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE     "/etc/ld.so.cache"
#define CACHE_MAX (16u << 20) /* bytes */
#define FILES_MAX 10000       /* that the cache does not know and that must be read */

/* The numbers of entries by the hash of a string of theirs. */
struct table {
	uint32_t *first, *next; /* one more than a number; 0: no more */
	size_t mask;
};

/* A cache that becomes another. */
struct merge {
	const struct gpu_image *image;
	struct gpu_ldcache c;
	struct table paths, names;
	char *dropped; /* one byte an entry */
	size_t n_read;
};

static int read_cache(const struct gpu_image *image, struct gpu_ldcache *ret, struct mlr_error *err)
{
	auto_close int fd = image->open(image->ctx, CACHE);
	auto_free char *data = NULL;
	struct stat st;
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail(err, fd < 0 ? -fd : errno, "'" CACHE "' of the image: %s",
			strerror(fd < 0 ? -fd : errno));
	if (st.st_size > CACHE_MAX)
		return mlr_fail(err, EFBIG, "'" CACHE "' of the image is larger than %u MiB",
			CACHE_MAX >> 20);
	data = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, data, (size_t)st.st_size);
	if (n < 0)
		return mlr_fail(err, (int)-n, "'" CACHE "' of the image: %s", strerror((int)-n));
	if (gpu_ldcache_parse(data, (size_t)n, ret, err) < 0)
		return mlr_wrap(err, "'" CACHE "' of the image");
	return 0;
}

static size_t hash_of(const char *s, size_t len)
{
	size_t hash = 2166136261u; /* FNV-1a; what a hostile image makes of it the limits bound */

	for (size_t i = 0; i < len; i++)
		hash = ((hash ^ (unsigned char)s[i]) * 16777619u) & 0xffffffffu;
	return hash;
}

static void table_init(struct table *t, size_t room)
{
	t->mask = 1023;
	while (t->mask < room)
		t->mask = t->mask * 2 + 1;
	t->first = xcalloc(t->mask + 1, sizeof(*t->first));
	t->next = xcalloc(room, sizeof(*t->next));
}

static void table_add(struct table *t, const char *s, size_t i)
{
	uint32_t *first = &t->first[hash_of(s, strlen(s)) & t->mask];

	t->next[i] = *first;
	*first = (uint32_t)i + 1;
}

static uint32_t table_first(const struct table *t, const char *s, size_t len)
{
	return t->first[hash_of(s, len) & t->mask];
}

static void merge_done(struct merge *m)
{
	gpu_ldcache_done(&m->c);
	free(m->paths.first);
	free(m->paths.next);
	free(m->names.first);
	free(m->names.next);
	free(m->dropped);
}

static void index_entry(struct merge *m, size_t i)
{
	table_add(&m->paths, m->c.v[i].path, i);
	table_add(&m->names, m->c.v[i].name, i);
}

static void merge_index(struct merge *m)
{
	size_t room = m->c.n + FILES_MAX;

	table_init(&m->paths, room);
	table_init(&m->names, room);
	m->dropped = xcalloc(room, 1);
	for (size_t i = 0; i < m->c.n; i++)
		index_entry(m, i);
}

static int has_path(const struct merge *m, const char *path, size_t len)
{
	for (uint32_t i = table_first(&m->paths, path, len); i; i = m->paths.next[i - 1]) {
		const char *known = m->c.v[i - 1].path;

		if (!m->dropped[i - 1] && strncmp(known, path, len) == 0 && known[len] == '\0')
			return 1;
	}
	return 0;
}

/*
 * Does the cache know a file already: by its path, or as the end of a link, "libz.so.1.2.13" of
 * "libz.so.1"? Then it was there when the image was made, and need not be read.
 */
static int is_known(const struct merge *m, const char *path)
{
	const char *end = path + strlen(path);

	if (has_path(m, path, (size_t)(end - path)))
		return 1;
	while ((end = memrchr(path, '.', (size_t)(end - path))))
		if (memmem(path, (size_t)(end - path), ".so.", 4) &&
			has_path(m, path, (size_t)(end - path)))
			return 1;
	return 0;
}

/* Its entries for the same kind of machine. */
static void drop_name(struct merge *m, const char *name, int bits)
{
	for (uint32_t i = table_first(&m->names, name, strlen(name)); i; i = m->names.next[i - 1]) {
		const struct gpu_ldcache_entry *e = &m->c.v[i - 1];

		if (strcmp(e->name, name) == 0 && gpu_ldcache_fits(e, bits))
			m->dropped[i - 1] = 1;
	}
}

static int is_native(int fd)
{
	unsigned char head[MACHINE_ELF_HEAD];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	const struct machine *m = n < 0 ? NULL : machine_of_elf(head, (size_t)n);

	return m && machine_is_native(m);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The name by which programs ask for a file, to free(); NULL: it is no library, or one with another
 * name in names, which are sorted. */
static char *name_of(const struct gpu_elf *elf, const char *file, const struct strv *names)
{
	size_t len = strlen(file);

	if (!elf->soname || strcmp(elf->soname, file) == 0)
		return xstrdup(file);
	if (len > 3 && strcmp(file + len - 3, ".so") == 0)
		return xstrdup(file);
	return strchr(elf->soname, '/') ||
			bsearch(&elf->soname, names->v, names->n, sizeof(*names->v), compare_texts)
		? NULL
		: xstrdup(elf->soname);
}

/* Returns how many entries it has brought. */
static int add_file(struct merge *m, const char *folder, const char *file, const struct strv *names,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", folder, file), *name = NULL;
	auto_call(gpu_elf_done) struct gpu_elf elf = GPU_ELF_INIT;
	auto_close int fd = -1;

	if (!cdi_is_library(file) || is_known(m, path))
		return 0;
	if (m->n_read++ == FILES_MAX)
		return mlr_fail(err, EFBIG,
			"'%s' of the image: there are more than %d libraries that '" CACHE
			"' does not know",
			folder, FILES_MAX);
	fd = m->image->open(m->image->ctx, path);
	if (fd < 0 || !is_native(fd) || gpu_elf_read(fd, &elf) < 0)
		return 0;
	name = name_of(&elf, file, names);
	if (!name)
		return 0;
	drop_name(m, name, elf.bits);
	gpu_ldcache_add(&m->c, name, path, elf.bits);
	index_entry(m, m->c.n - 1);
	return 1;
}

static int add_folder(struct merge *m, const char *folder, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	int added = 0;

	if (m->image->list(m->image->ctx, folder, &names) < 0)
		return 0;
	strv_sort(&names);
	for (size_t i = 0; i < names.n; i++) {
		int r = add_file(m, folder, names.v[i], &names, err);

		if (r < 0)
			return r;
		added += r;
	}
	return added;
}

int cdi_cache_merge(const struct gpu_image *image, const struct strv *folders, char **ret,
	size_t *size, struct mlr_error *err)
{
	auto_call(merge_done) struct merge m = { .image = image, .c = GPU_LDCACHE_INIT };
	int added = 0, r = read_cache(image, &m.c, err);

	if (r < 0)
		return r;
	merge_index(&m);
	for (size_t i = 0; i < folders->n; i++) {
		r = add_folder(&m, folders->v[i], err);
		if (r < 0)
			return r;
		added += r;
	}
	*ret = NULL;
	gpu_ldcache_drop(&m.c, m.dropped);
	if (added > 0)
		*size = gpu_ldcache_print(&m.c, ret);
	return added;
}
