#include "mpi/place.h"

#include "base/base.h"

#include <sys/utsname.h>

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
	static const char *const places[] = { "/usr/local/lib", "/usr/lib64/openmpi/lib",
		"/usr/lib64/mpich/lib", "/usr/local/openmpi/lib", "/usr/local/mpi/lib",
		"/usr/local/mpich/lib", "/opt/openmpi/lib", "/opt/mpich/lib", "/opt/hpcx/ompi/lib",
		"/opt/mvapich2/lib", "/opt/intel/oneapi/mpi/latest/lib",
		"/opt/intel/oneapi/mpi/latest/lib/release" };

	auto_free char *copy = path ? xstrdup(path) : NULL;
	char *save = NULL;

	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
		dir = strtok_r(NULL, ":", &save)) {
		auto_free char *program = xasprintf("%s/mpirun", dir);

		add_beside(program, ret);
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		strv_add(ret, places[i]);
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
