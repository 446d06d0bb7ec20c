#include "mpi/tree.h"

#include "base/base.h"
#include "gpu/inject/ldcache.h"

#include <sys/utsname.h>

#define CACHE     "/etc/ld.so.cache"
#define CACHE_MAX (16u << 20) /* bytes */

static int open_there(void *ctx, const char *path)
{
	return gpu_dir_open_file(ctx, path);
}

static int list_there(void *ctx, const char *path, struct strv *ret)
{
	return gpu_dir_list(ctx, path, ret);
}

void mpi_tree_of(struct gpu_dir *d, struct gpu_image *ret)
{
	*ret = (struct gpu_image){ .open = open_there, .list = list_there, .ctx = d };
}

#define DIRS_MAX 256 /* an image's LD_LIBRARY_PATH may be of any length */

static void add_dir(struct mpi_tree *t, const char *dir)
{
	auto_free char *clean = path_clean(dir);

	if (clean && t->dirs.n < DIRS_MAX && !strv_has(&t->dirs, clean))
		strv_add(&t->dirs, clean);
}

static int add_cached(void *ctx, const struct gpu_ldcache_entry *e)
{
	const char *slash = strrchr(e->path, '/');
	auto_free char *dir = slash ? xstrndup(e->path, (size_t)(slash - e->path)) : NULL;

	if (dir && gpu_ldcache_fits(e, 64) && !e->hwcaps)
		add_dir(ctx, dir);
	return 0;
}

/* An invalid cache is ignored, as ld.so does. */
static void read_cache(struct mpi_tree *t)
{
	auto_close int fd = t->files->open(t->files->ctx, CACHE);
	auto_free char *data = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < 0 || st.st_size > CACHE_MAX)
		return;
	data = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, data, (size_t)st.st_size);
	if (n > 0)
		gpu_ldcache_walk(data, (size_t)n, add_cached, t, NULL);
}

void mpi_tree_begin(struct mpi_tree *ret, const struct gpu_image *files, const char *library_path)
{
	auto_free char *copy = library_path ? xstrdup(library_path) : NULL;
	char *save = NULL;
	struct utsname u;

	*ret = (struct mpi_tree)MPI_TREE_INIT;
	ret->files = files;
	for (char *d = copy ? strtok_r(copy, ":", &save) : NULL; d; d = strtok_r(NULL, ":", &save))
		add_dir(ret, d);
	read_cache(ret);
	uname(&u);
	for (int i = 0; i < 2; i++) {
		const char *usr = i == 0 ? "" : "/usr";
		auto_free char *multiarch = xasprintf("%s/lib/%s-linux-gnu", usr, u.machine);
		auto_free char *wide = xasprintf("%s/lib64", usr), *lib = xasprintf("%s/lib", usr);

		add_dir(ret, multiarch);
		add_dir(ret, wide);
		add_dir(ret, lib);
	}
}

void mpi_tree_done(struct mpi_tree *t)
{
	for (size_t i = 0; i < t->n_known; i++) {
		free(t->known[i].path);
		strv_done(&t->known[i].names);
	}
	free(t->known);
	strv_done(&t->dirs);
	*t = (struct mpi_tree)MPI_TREE_INIT;
}

const struct strv *mpi_tree_list(struct mpi_tree *t, const char *dir)
{
	struct mpi_tree_dir *d;

	for (size_t i = 0; i < t->n_known; i++)
		if (strcmp(t->known[i].path, dir) == 0)
			return &t->known[i].names;
	t->known = xgrow(t->known, t->n_known, sizeof(*t->known));
	d = &t->known[t->n_known++];
	*d = (struct mpi_tree_dir){ .path = xstrdup(dir) };
	t->files->list(t->files->ctx, dir, &d->names);
	strv_sort(&d->names);
	return &d->names;
}

/* Index of the first name that is not before this one. */
static size_t first_from(const struct strv *names, const char *name)
{
	size_t low = 0, high = names->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(names->v[mid], name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int mpi_tree_has(struct mpi_tree *t, const char *dir, const char *name)
{
	const struct strv *names = mpi_tree_list(t, dir);
	size_t i = first_from(names, name);

	return i < names->n && strcmp(names->v[i], name) == 0;
}

char *mpi_tree_find(struct mpi_tree *t, const struct strv *first, const char *name)
{
	for (size_t i = 0; first && i < first->n; i++)
		if (mpi_tree_has(t, first->v[i], name))
			return xasprintf("%s/%s", first->v[i], name);
	for (size_t i = 0; i < t->dirs.n; i++)
		if (mpi_tree_has(t, t->dirs.v[i], name))
			return xasprintf("%s/%s", t->dirs.v[i], name);
	return NULL;
}

void mpi_tree_version(struct mpi_tree *t, const char *path, struct gpu_version *ret)
{
	const char *name = path_base(path), *so = strstr(name, ".so");
	auto_free char *dir = xstrndup(path, (size_t)(name - path - 1));
	const struct strv *names = mpi_tree_list(t, *dir ? dir : "/");
	size_t len = strlen(name);
	struct gpu_version v;

	*ret = (struct gpu_version){ { 0 } };
	if (so && so[3] == '.')
		gpu_version_parse(so + strlen(".so."), ret);
	for (size_t i = first_from(names, name);
		i < names->n && strncmp(names->v[i], name, len) == 0; i++)
		if (so && names->v[i][len] == '.' &&
			gpu_version_parse(names->v[i] + (so - name) + strlen(".so."), &v) == 0 &&
			gpu_version_compare(&v, ret) > 0)
			*ret = v;
}

int mpi_tree_elf(struct mpi_tree *t, const char *path, struct gpu_elf *ret)
{
	auto_close int fd = t->files->open(t->files->ctx, path);

	return fd < 0 ? fd : gpu_elf_read(fd, ret);
}
