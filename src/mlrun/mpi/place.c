#include "mpi/place.h"

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

	*ret = (struct mpi_tree){ 0 };
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
	*t = (struct mpi_tree){ 0 };
}

const struct strv *mpi_tree_list(struct mpi_tree *t, const char *dir)
{
	struct mpi_tree_dir *d;

	for (size_t i = 0; i < t->n_known; i++)
		if (strcmp(t->known[i].path, dir) == 0)
			return &t->known[i].names;
	d = xadd(t->known, t->n_known);
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

const char *mpi_family_name(enum mpi_family family)
{
	static const char *const names[] = { "no MPI", "Open MPI", "MPICH or a relative of it" };

	return names[family];
}

/* Does the name begin with one of the words? */
static int begins(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(name, *words, strlen(*words)) == 0)
			return 1;
	return 0;
}

int mpi_family_is_main(const char *name, struct gpu_version *ret)
{
	/* Open MPI has other libraries whose names begin with "libmpi_". */
	static const char *const stems[] = { "libmpi.so.", "libmpich.so.", "libmpi_gnu",
		"libmpi_cray", "libmpi_intel", "libmpi_nvidia", "libmpi_aocc", "libmpi_amd", NULL };
	const char *so = strstr(name, ".so.");

	return so && begins(name, stems) && gpu_version_parse(so + strlen(".so."), ret) == 0;
}

const char *const *mpi_family_aliases(const char *name)
{
	static const char *const names[][3] = {
		{ "libmpi.so.12", "libmpich.so.12", NULL },
		{ "libmpifort.so.12", "libmpichfort.so.12", NULL },
		{ "libmpicxx.so.12", "libmpichcxx.so.12", NULL },
	};
	struct gpu_version v;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (const char *const *n = names[i]; *n; n++)
			if (strcmp(name, *n) == 0)
				return names[i];
	return mpi_family_is_main(name, &v) && v.part[0] == 12 ? names[0] : NULL;
}

int mpi_family_is_part(const char *name)
{
	static const char *const stems[] = { "libmpi", "libopen-", "libmca_", "liboshmem",
		"libompi", "libfmpich", "libpmix", "libpmi.", "libpmi2.", "libpmi_", "libprrte",
		"libucp.", "libucs.", "libuct.", "libucm.", "libucc.", "libucs_", "libuct_",
		"libucx_", "libfabric.", "libibverbs.", "librdmacm.", "libibumad.", "libmlx",
		"libefa.", "libcxi.", "libpsm", "libxpmem.", "libhcoll.", "libocoms.", "libsharp",
		NULL };

	return begins(name, stems);
}

int mpi_family_is_foreign(const char *name)
{
	static const char *const stems[] = { "ld-linux", "ld64.so", "linux-vdso", "libc.so.",
		"libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "libutil.so.",
		"libresolv.so.", "libanl.so.", "libmvec.so.", "libnss_", "libthread_db.so.",
		"libcuda.so.", "libnvidia-", NULL };

	return begins(name, stems);
}

void mpi_place_done(struct mpi_place *p)
{
	free(p->dir);
	free(p->name);
	*p = (struct mpi_place)MPI_PLACE_INIT;
}

int mpi_place_fits(const struct mpi_place *a, const struct mpi_place *b)
{
	return a->family == b->family && a->version.part[0] == b->version.part[0];
}

/* Open MPI 1.10's library has the same name as MPICH's, but libraries of its own beside it. */
static enum mpi_family family_of(struct mpi_tree *t, const char *dir, const struct gpu_version *v)
{
	const struct strv *names = mpi_tree_list(t, dir);

	if (v->part[0] != 12)
		return MPI_OPEN;
	for (size_t i = 0; i < names->n; i++)
		if (strncmp(names->v[i], "libopen-pal.so.1", 16) == 0)
			return MPI_OPEN;
	return MPI_MPICH;
}

/* Take the directory's libraries that are better than *ret. Returns 1 when it is what is sought. */
static int look_in(
	struct mpi_tree *t, const char *dir, const struct mpi_place *like, struct mpi_place *ret)
{
	const struct strv *names = mpi_tree_list(t, dir);
	struct gpu_version v;

	for (size_t i = 0; i < names->n; i++) {
		struct mpi_place here = MPI_PLACE_INIT;

		/* Not libmpi.so.40.30.4, but libmpi.so.40. */
		if (!mpi_family_is_main(names->v[i], &v) ||
			strchr(strstr(names->v[i], ".so.") + strlen(".so."), '.'))
			continue;
		here.family = family_of(t, dir, &v);
		here.version = v;
		if (ret->name && (!like || !mpi_place_fits(&here, like)))
			continue;
		mpi_place_done(ret);
		*ret = here;
		ret->dir = xstrdup(dir);
		ret->name = xstrdup(names->v[i]);
		if (!like || like->family == MPI_NONE || mpi_place_fits(ret, like))
			return 1;
	}
	return 0;
}

int mpi_place_find(struct mpi_tree *t, const struct strv *first, const struct mpi_place *like,
	struct mpi_place *ret)
{
	auto_free char *path = NULL;
	int is_it = 0;

	for (size_t i = 0; first && i < first->n && !is_it; i++)
		is_it = look_in(t, first->v[i], like, ret);
	for (size_t i = 0; i < t->dirs.n && !is_it; i++)
		is_it = look_in(t, t->dirs.v[i], like, ret);
	if (!ret->name)
		return 0;
	path = xasprintf("%s/%s", ret->dir, ret->name);
	mpi_tree_version(t, path, &ret->version);
	return 1;
}

/* The library directories of the installation whose bin/ has this program. */
static void add_beside(const char *program, struct strv *ret)
{
	static const char *const dirs[] = { "lib", "lib64", NULL, "lib/release" };
	const char *name = path_base(program);
	auto_free char *bin = xstrndup(program, (size_t)(name - program)), *multiarch = NULL;
	struct utsname u;

	uname(&u);
	multiarch = xasprintf("lib/%s-linux-gnu", u.machine);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *dir = xasprintf("%s/../%s", bin, dirs[i] ? dirs[i] : multiarch);
		auto_free char *clean = path_clean(dir);

		if (clean && !strv_has(ret, clean))
			strv_add(ret, clean);
	}
}

void mpi_place_usual(const char *path, struct strv *ret)
{
	auto_free char *copy = path ? xstrdup(path) : NULL;
	char *save = NULL;

	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
		dir = strtok_r(NULL, ":", &save)) {
		auto_free char *program = xasprintf("%s/mpirun", dir);

		add_beside(program, ret);
	}
	strv_add_words(ret, "/usr/local/lib", "/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib",
		"/usr/local/openmpi/lib", "/usr/local/mpi/lib", "/usr/local/mpich/lib",
		"/opt/openmpi/lib", "/opt/mpich/lib", "/opt/hpcx/ompi/lib", "/opt/mvapich2/lib",
		"/opt/intel/oneapi/mpi/latest/lib", "/opt/intel/oneapi/mpi/latest/lib/release");
}

static void look_on_path(
	const struct gpu_dir *d, const char *path, const char *program, struct strv *ret)
{
	auto_free char *copy = xstrdup(path);
	char *save = NULL;

	for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		auto_free char *file = *dir == '/' ? xasprintf("%s/%s", dir, program) : NULL;
		auto_free char *real = file ? gpu_dir_resolve(d, file, NULL) : NULL;

		if (!real)
			continue;
		add_beside(file, ret);
		if (strcmp(real, file) != 0)
			add_beside(real, ret);
		return;
	}
}

static void list_beside_programs(const struct mpi_place_search *s, struct strv *ret)
{
	static const char *const programs[] = { "mpirun", "mpiexec", "mpicc", "ompi_info" };
	const char *path = strv_env_get(s->env, "PATH");

	for (size_t i = 0; path && i < ARRAY_LEN(programs); i++)
		look_on_path(s->d, path, programs[i], ret);
}

/* A setting may name directories and files. */
static void list_named(const struct mpi_place_search *s, struct strv *dirs, struct strv *files)
{
	auto_strv struct strv all = STRV_INIT;

	if (s->config)
		config_list(s->config, "mpi", "libraries", &all);
	for (size_t i = 0; i < all.n; i++) {
		struct stat st;
		auto_free char *real = gpu_dir_resolve(s->d, all.v[i], &st), *dir = NULL;

		if (!real || S_ISDIR(st.st_mode)) {
			strv_add(dirs, all.v[i]);
			continue;
		}
		dir = xstrndup(all.v[i], (size_t)(path_base(all.v[i]) - all.v[i]));
		strv_take(dirs, path_clean(dir));
		strv_add(files, all.v[i]);
	}
}

int mpi_place_find_machines(const struct mpi_place_search *s, struct mpi_tree *t,
	struct strv *named, struct strv *files, struct mpi_place *ret)
{
	auto_strv struct strv dirs = STRV_INIT;
	struct strv linkers = t->dirs;
	int r;

	list_named(s, named, files);
	if (named->n == 0) {
		list_beside_programs(s, &dirs);
		return mpi_place_find(t, &dirs, s->like, ret);
	}
	/* The linker's directories are only for what MPI needs. */
	t->dirs = (struct strv)STRV_INIT;
	r = mpi_place_find(t, named, s->like, ret);
	t->dirs = linkers;
	return r;
}
