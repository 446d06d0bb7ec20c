#include "mpi/library.h"

#define ANCESTORS 4 /* "/usr" is that far above Debian's libpmix */

/* Files that a library loads or reads besides. A path with "^" is looked for in the library's
 * directory and in those above it. */
static const struct {
	const char *stem, *path;
	int is_module;
} besides[] = {
	{ "libopen-pal.", "openmpi", 1 },
	{ "libopen-pal.", "openmpi/lib/openmpi", 1 }, /* Debian's */
	{ "libopen-pal.", "openmpi/lib/openmpi3", 1 },
	{ "libopen-pal.", "^share/openmpi", 0 },
	{ "libopen-pal.", "^etc/openmpi", 0 },
	{ "libopen-pal.", "^etc/openmpi-mca-params.conf", 0 },
	{ "libopen-pal.", "^share/prte", 0 },
	{ "libpmix.", "pmix", 1 },
	{ "libpmix.", "pmix2/lib/pmix", 1 },
	{ "libpmix.", "^share/pmix", 0 },
	{ "libpmix.", "^etc/pmix-mca-params.conf", 0 },
	{ "libucs.", "ucx", 1 },
	{ "libfabric.", "libfabric", 1 },
	{ "libfabric.", "prov", 1 }, /* Intel's */
	{ "libibverbs.", "libibverbs", 1 },
	{ "libibverbs.", "^etc/libibverbs.d", 0 },
};

struct collection {
	struct mpi_tree *host, *image;
	const struct gpu_dir *d;
	struct mpi_library_set set;
	const struct strv *usual;
};

static void library_done(struct mpi_library *l)
{
	free(l->name);
	free(l->path);
}

void mpi_library_set_done(struct mpi_library_set *s)
{
	free_all(s->v, s->n, library_done);
	strv_done(&s->modules);
	strv_done(&s->data);
	library_done(&s->neediest);
	*s = (struct mpi_library_set){ 0 };
}

static void collection_done(struct collection *c)
{
	mpi_library_set_done(&c->set);
}

static char *dir_of(const char *path)
{
	return xstrndup(path, (size_t)(path_base(path) - path - (path_base(path) - path > 1)));
}

static int is_collected(const struct collection *c, const char *name)
{
	for (size_t i = 0; i < c->set.n; i++)
		if (strcmp(c->set.v[i].name, name) == 0)
			return 1;
	return 0;
}

/* Shall the container get the machine's? The image's stays unless both have a version in their
 * names, and the image's is the older. */
static int is_wanted(
	struct collection *c, const char *name, const char *path, enum mpi_library_reason *ret)
{
	auto_free char *own = NULL;
	struct gpu_version ours, theirs;

	*ret = MPI_LIBRARY_PART;
	if (mpi_family_is_part(name))
		return 1;
	own = mpi_tree_find(c->image, c->usual, name);
	*ret = own ? MPI_LIBRARY_NEWER : MPI_LIBRARY_LACKS;
	if (!own)
		return 1;
	mpi_tree_version(c->host, path, &ours);
	mpi_tree_version(c->image, own, &theirs);
	return gpu_version_compare(&ours, &theirs) > 0;
}

static void add(struct collection *c, const char *name, const char *path)
{
	enum mpi_library_reason reason;
	auto_free char *real = NULL;

	if (is_collected(c, name) || mpi_family_is_foreign(name) ||
		!is_wanted(c, name, path, &reason))
		return;
	real = gpu_dir_resolve(c->d, path, NULL);
	if (!real)
		return;
	*xadd(c->set.v, c->set.n) = (struct mpi_library){
		.name = xstrdup(name), .path = take_ptr(&real), .reason = reason
	};
}

/* The directories where ld.so looks first for what a library needs: its own list. The library's
 * directory stands for the lists of those that load it. */
static void list_runpath(const struct gpu_elf *elf, const char *dir, struct strv *ret)
{
	auto_free char *copy = elf->runpath ? xstrdup(elf->runpath) : NULL;
	char *save = NULL;

	for (char *s = copy ? strtok_r(copy, ":", &save) : NULL; s;
		s = strtok_r(NULL, ":", &save)) {
		int is_origin = strncmp(s, "$ORIGIN", 7) == 0 || strncmp(s, "${ORIGIN}", 9) == 0;
		auto_free char *full =
			is_origin ? xasprintf("%s%s", dir, s + (s[1] == '{' ? 9 : 7)) : xstrdup(s);
		char *clean = path_clean(full);

		if (clean)
			strv_take(ret, clean);
	}
	strv_add(ret, dir);
}

/* Collect what a library needs. What the machine lacks too, it does without. */
static void add_needs(struct collection *c, const char *path, const struct gpu_elf *elf)
{
	auto_strv struct strv first = STRV_INIT;
	auto_free char *dir = dir_of(path);

	list_runpath(elf, dir, &first);
	for (size_t i = 0; i < elf->needed.n; i++) {
		const char *name = elf->needed.v[i];
		auto_free char *found =
			strchr(name, '/') || is_collected(c, name) || mpi_family_is_foreign(name)
			? NULL
			: mpi_tree_find(c->host, &first, name);

		if (found)
			add(c, name, found);
	}
}

static void read_module(struct collection *c, const char *dir, const char *name)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_free char *path = xasprintf("%s/%s", dir, name);

	if (mpi_tree_elf(c->host, path, &elf) < 0)
		return;
	if (gpu_version_compare(&elf.glibc, &c->set.neediest.glibc) > 0) {
		library_done(&c->set.neediest);
		c->set.neediest =
			(struct mpi_library){ .path = take_ptr(&path), .glibc = elf.glibc };
		path = xasprintf("%s/%s", dir, name);
	}
	add_needs(c, path, &elf);
}

/* Is it a directory of modules, and not one in which such directories lie? */
static int has_modules(const struct strv *names)
{
	for (size_t i = 0; i < names->n; i++)
		if (strstr(names->v[i], ".so"))
			return 1;
	return 0;
}

static void add_modules(struct collection *c, const char *dir)
{
	auto_strv struct strv names = STRV_INIT; /* the tree's list may move */
	const struct strv *known = mpi_tree_list(c->host, dir);

	if (strv_has(&c->set.modules, dir) || !has_modules(known))
		return;
	strv_add(&c->set.modules, dir);
	strv_add_all(&names, known);
	for (size_t i = 0; i < names.n; i++)
		if (strstr(names.v[i], ".so"))
			read_module(c, dir, names.v[i]);
}

/* Not the machine's whole /etc or /usr/share, only what has MPI's name. */
static void add_data(struct collection *c, const char *dir, const char *path)
{
	auto_free char *at = xstrdup(dir);

	for (int i = 0; i <= ANCESTORS && *at; i++) {
		auto_free char *file = xasprintf(
			"%s/%s", strcmp(at, "/usr") == 0 && path[0] == 'e' ? "" : at, path);
		auto_free char *real = gpu_dir_resolve(c->d, file, NULL);
		char *up = strrchr(at, '/');

		if (real && !strv_has(&c->set.data, file)) {
			strv_add(&c->set.data, file);
			return;
		}
		*up = '\0';
	}
}

/* The machine may reach its installation through a link, and MPI looks by the name that it was
 * built with: take both. */
static void add_besides(struct collection *c, const char *name, const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(besides); i++) {
		auto_free char *path = NULL;

		if (strncmp(name, besides[i].stem, strlen(besides[i].stem)) != 0)
			continue;
		path = xasprintf("%s/%s", dir, besides[i].path);
		if (besides[i].is_module)
			add_modules(c, path);
		else
			add_data(c, dir, besides[i].path + 1);
	}
}

/* Read the library that was added as number i. Returns 0 or -errno. */
static int read_library(struct collection *c, size_t i, const char *place)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_free char *name = xstrdup(c->set.v[i].name), *path = xstrdup(c->set.v[i].path);
	auto_free char *dir = dir_of(path);

	TRY(mpi_tree_elf(c->host, path, &elf));
	c->set.v[i].glibc = elf.glibc;
	add_needs(c, path, &elf);
	add_besides(c, name, dir);
	if (mpi_tree_has(c->host, place, name))
		add_besides(c, name, place);
	return 0;
}

/* The other libraries of an implementation: Fortran's, C++'s. */
static int is_sibling(const struct mpi_place *at, const char *name)
{
	const char *so = strstr(name, ".so.");
	struct gpu_version v;

	if (!so || strchr(so + strlen(".so."), '.') ||
		gpu_version_parse(so + strlen(".so."), &v) < 0 || v.part[0] != at->version.part[0])
		return 0;
	if (at->family == MPI_MPICH)
		return mpi_family_aliases(name) != NULL && !mpi_family_is_main(name, &v);
	return strncmp(name, "libmpi_", 7) == 0 || strncmp(name, "liboshmem.", 10) == 0;
}

static void add_siblings(struct collection *c, const struct mpi_place *at)
{
	auto_strv struct strv names = STRV_INIT;
	const struct strv *known = mpi_tree_list(c->host, at->dir);

	for (size_t i = 0; i < known->n; i++)
		if (is_sibling(at, known->v[i]))
			strv_add(&names, known->v[i]);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("%s/%s", at->dir, names.v[i]);

		add(c, names.v[i], path);
	}
}

int mpi_library_collect(struct mpi_tree *host, const struct gpu_dir *d, struct mpi_tree *image,
	const struct strv *usual, const struct mpi_place *at, const struct strv *files,
	struct mpi_library_set *ret, struct mlr_error *err)
{
	auto_call(collection_done) struct collection c = {
		.host = host, .image = image, .d = d, .usual = usual
	};
	auto_free char *main_path = xasprintf("%s/%s", at->dir, at->name);

	add(&c, at->name, main_path);
	if (files->n == 0)
		add_siblings(&c, at);
	for (size_t i = 0; i < files->n; i++)
		add(&c, path_base(files->v[i]), files->v[i]);
	for (size_t i = 0; i < c.set.n; i++) {
		int r = read_library(&c, i, at->dir);

		if (r < 0 && i == 0)
			return mlr_result(err, r, "'%s' cannot be read as a library", main_path);
	}
	if (c.set.n == 0)
		return mlr_fail(err, ENOENT, "'%s' leads nowhere", main_path);
	*ret = c.set;
	c.set = (struct mpi_library_set){ 0 };
	return 0;
}
