#include "mpi/host.h"

#include "gpu/inject/linker.h"
#include "job/job.h"
#include "mpi/mpi.h"
#include "mpi/library.h"

#define FLAGS    (PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV)
#define TOLD_MAX 8 /* names in a remark */

#define HINT_IMAGES "--mpi=auto takes the image's own MPI"

/* All that decides about one container. */
struct swap {
	const struct mpi_host_request *q;
	struct plan *plan;
	struct gpu_dir d;
	struct gpu_image machine;
	struct mpi_tree host, image;
	struct strv usual;             /* directories of the image that its linker may not know */
	struct mpi_place theirs, ours; /* the image's and the machine's */
	struct strv files;             /* [mpi] libraries that are files */
	struct mpi_library_set set;
};

static void swap_done(struct swap *s)
{
	mpi_library_set_done(&s->set);
	strv_done(&s->files);
	strv_done(&s->usual);
	mpi_place_done(&s->theirs);
	mpi_place_done(&s->ours);
	mpi_tree_done(&s->host);
	mpi_tree_done(&s->image);
	gpu_dir_close(&s->d);
}

enum mpi_host_level mpi_host_level_read(const char *word)
{
	static const char *const words[] = { NULL, "major", "full", "strict" };

	for (size_t i = MPI_HOST_MAJOR; word && i < ARRAY_LEN(words); i++)
		if (strcmp(word, words[i]) == 0)
			return (enum mpi_host_level)i;
	return MPI_HOST_UNSET;
}

static enum mpi_host_level level_of(const struct mpi_host_request *q)
{
	const struct config_value *v =
		q->config ? config_get(q->config, "mpi", "compatibility") : NULL;
	enum mpi_host_level level = q->level;

	if (level == MPI_HOST_UNSET && v)
		level = mpi_host_level_read(v->value);
	return level == MPI_HOST_UNSET ? MPI_HOST_MAJOR : level;
}

static int no_mpi(const struct swap *s, const struct strv *named, struct mlr_error *err)
{
	auto_free char *dirs = strv_join(named, TOLD_MAX, ":");

	if (s->q->is_wish) {
		plan_remark_add(s->plan, PLAN_FROM_MPI,
			"the image asks for the machine's MPI, and this machine has none");
		return 0;
	}
	if (*dirs)
		mlr_fail(err, ENOENT,
			"--mpi=host: no MPI library in '%s', where [mpi] libraries points", dirs);
	else
		mlr_fail(err, ENOENT,
			"--mpi=host: this machine has no MPI that mpirun on PATH, LD_LIBRARY_PATH or "
			"the linker's cache leads to");
	return mlr_hint(err,
		"load its module first, or name its directory by 'libraries' in [mpi] of mlrun.conf; " HINT_IMAGES);
}

/* Returns 1, 0 without an MPI where that is allowed, or -errno. */
static int find_machines(struct swap *s, struct mlr_error *err)
{
	auto_strv struct strv named = STRV_INIT;
	const struct mpi_place_search search = {
		.d = &s->d, .config = s->q->config, .env = s->q->env, .like = &s->theirs
	};

	mpi_tree_begin(&s->host, &s->machine, strv_env_get(s->q->env, "LD_LIBRARY_PATH"));
	if (mpi_place_find_machines(&search, &s->host, &named, &s->files, &s->ours))
		return 1;
	return no_mpi(s, &named, err);
}

static void find_images(struct swap *s)
{
	mpi_tree_begin(&s->image, s->q->image, plan_env_get(s->plan, "LD_LIBRARY_PATH"));
	mpi_place_usual(plan_env_get(s->plan, "PATH"), &s->usual);
	mpi_place_find(&s->image, &s->usual, NULL, &s->theirs);
}

/* "libmpi.so.12.1.8" of a name "libmpi.so.12" and the version that its file has, if that is known.
 */
static char *full_name(const char *name, const struct gpu_version *v)
{
	const char *so = strstr(name, ".so.");
	char text[GPU_VERSION_TEXT];

	if (!so || (!v->part[1] && !v->part[2]))
		return xstrdup(name);
	return xasprintf("%.*s.so.%s", (int)(so - name), name, gpu_version_print(v, text));
}

static int check_family(const struct swap *s, struct mlr_error *err)
{
	if (mpi_place_fits(&s->theirs, &s->ours))
		return 0;
	mlr_fail(err, ENOTSUP,
		"--mpi=host: the image has %s (%s), this machine %s ('%s/%s'): programs of one do not "
		"run with the other",
		mpi_family_name(s->theirs.family), s->theirs.name, mpi_family_name(s->ours.family),
		s->ours.dir, s->ours.name);
	return mlr_hint(err,
		"load the module of an MPI with the name %s, if there is one; " HINT_IMAGES
		" (srun --mpi=pmix starts Open MPI's programs, --mpi=pmi2 MPICH's)",
		s->theirs.name);
}

static int check_level(const struct swap *s, struct mlr_error *err)
{
	unsigned theirs = s->theirs.version.part[1], ours = s->ours.version.part[1];
	enum mpi_host_level level = level_of(s->q);
	auto_free char *a = NULL, *b = NULL;

	if (level == MPI_HOST_MAJOR || theirs == ours || (level == MPI_HOST_FULL && ours > theirs))
		return 0;
	a = full_name(s->theirs.name, &s->theirs.version);
	b = full_name(s->ours.name, &s->ours.version);
	mlr_fail(err, ENOTSUP, "--mpi=host: the image's %s and this machine's %s are not %s", a, b,
		level == MPI_HOST_STRICT
			? "of one version, as 'strict' demands"
			: "in this order, as 'full' demands: the machine's is older");
	return mlr_hint(err, "--mpi=host:major asks for the same SONAME only; " HINT_IMAGES);
}

static int too_new(
	const struct mpi_library *l, const struct gpu_image_libc *libc, struct mlr_error *err)
{
	char need[GPU_VERSION_TEXT], has[GPU_VERSION_TEXT];

	mlr_fail(err, ENOTSUP,
		"--mpi=host: this machine's '%s' needs GLIBC_%s, and the image's C library '%s' is %s",
		l->path, gpu_version_print(&l->glibc, need), libc->path,
		gpu_version_print(&libc->version, has));
	return mlr_hint(err,
		"an image of a newer distribution, or an MPI of this machine that was built on an "
		"older one ('libraries' in [mpi] of mlrun.conf); " HINT_IMAGES);
}

static int check_libc(const struct swap *s, struct mlr_error *err)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc libc = GPU_IMAGE_LIBC_INIT;
	const struct mpi_library *neediest = &s->set.neediest;

	gpu_image_libc_read(s->q->image, &libc);
	if (libc.kind == GPU_LIBC_MUSL || libc.kind == GPU_LIBC_NONE) {
		mlr_fail(err, ENOTSUP,
			"--mpi=host: the image %s, and this machine's MPI needs glibc",
			libc.kind == GPU_LIBC_MUSL ? "has musl as its C library"
						   : "has no C library");
		return mlr_hint(err, "an image of a distribution with glibc; " HINT_IMAGES);
	}
	if (!gpu_version_is_known(&libc.version))
		return 0;
	for (size_t i = 0; i < s->set.n; i++)
		if (gpu_version_compare(&s->set.v[i].glibc, &neediest->glibc) > 0)
			neediest = &s->set.v[i];
	return gpu_version_compare(&neediest->glibc, &libc.version) > 0
		? too_new(neediest, &libc, err)
		: 0;
}

/* --- Into the plan ------------------------------------------------------------------- */

static int bind(const struct swap *s, const char *path, const char *target, struct mlr_error *err)
{
	const char *root = mpi_fabric_root();
	auto_free char *source = xasprintf("%s%s", strcmp(root, "/") ? root : "", path);

	return plan_mount_add(s->plan, PLAN_BIND, source, target, FLAGS, PLAN_FROM_MPI, err);
}

static int put_on_shelf(const struct swap *s, const struct mpi_library *l, struct mlr_error *err)
{
	auto_free char *target = xasprintf(MPI_HOST_DIR "/%s", l->name);

	plan_library_add(s->plan, l->name, target, 64, PLAN_FROM_MPI);
	return bind(s, l->path, target, err);
}

static const struct mpi_library *collected(const struct swap *s, const char *name)
{
	for (size_t i = 0; i < s->set.n; i++)
		if (strcmp(s->set.v[i].name, name) == 0)
			return &s->set.v[i];
	return NULL;
}

/* Let programs find the library by the names that its relatives have. */
static int add_aliases(const struct swap *s, const struct mpi_library *l, struct mlr_error *err)
{
	const char *const *names = s->ours.family == MPI_MPICH ? mpi_family_aliases(l->name) : NULL;

	for (; names && *names; names++) {
		auto_free char *link = xasprintf(MPI_HOST_DIR "/%s", *names);

		if (collected(s, *names))
			continue;
		plan_library_add(s->plan, *names, link, 64, PLAN_FROM_MPI);
		TRY(plan_mount_add(s->plan, PLAN_SYMLINK, l->name, link, 0, PLAN_FROM_MPI, err));
	}
	return 0;
}

/* /lib is a link to /usr/lib in most images: the same file would be covered twice. */
static int is_seen(struct swap *s, const struct strv *dirs, const char *dir, const char *name)
{
	auto_free char *usr = xasprintf("/usr%s", dir);

	return strv_has(dirs, usr) && mpi_tree_has(&s->image, usr, name);
}

/* Cover the image's libraries of this name, which a program's RPATH or another LD_LIBRARY_PATH may
 * lead to. */
static int cover(struct swap *s, const struct mpi_library *l, const char *name,
	const struct strv *dirs, struct mlr_error *err)
{
	for (size_t i = 0; i < dirs->n; i++) {
		auto_free char *target = NULL, *full = NULL;
		struct gpu_version v;

		if (!mpi_tree_has(&s->image, dirs->v[i], name) ||
			is_seen(s, dirs, dirs->v[i], name))
			continue;
		target = xasprintf("%s/%s", dirs->v[i], name);
		mpi_tree_version(&s->image, target, &v);
		full = full_name(name, &v);
		plan_remark_add(s->plan, PLAN_FROM_MPI, "'%s' replaces the image's '%s' (%s)",
			l->path, target, full);
		TRY(bind(s, l->path, target, err));
	}
	return 0;
}

static int cover_all(struct swap *s, struct mlr_error *err)
{
	auto_strv struct strv dirs = STRV_INIT;

	strv_add_all(&dirs, &s->image.dirs);
	for (size_t i = 0; i < s->usual.n; i++)
		if (!strv_has(&dirs, s->usual.v[i]))
			strv_add(&dirs, s->usual.v[i]);
	for (size_t i = 0; i < s->set.n; i++) {
		const struct mpi_library *l = &s->set.v[i];
		const char *const *names = mpi_family_aliases(l->name);

		if (l->reason != MPI_LIBRARY_PART)
			continue;
		TRY(cover(s, l, l->name, &dirs, err));
		for (; names && *names; names++)
			if (!collected(s, *names))
				TRY(cover(s, l, *names, &dirs, err));
	}
	return 0;
}

/* UCX looks for its modules beside itself, too. */
static int add_modules(const struct swap *s, struct mlr_error *err)
{
	for (size_t i = 0; i < s->set.modules.n; i++) {
		const char *dir = s->set.modules.v[i];

		TRY(bind(s, dir, dir, err));
		if (strcmp(path_base(dir), "ucx") == 0)
			TRY(bind(s, dir, MPI_HOST_DIR "/ucx", err));
	}
	for (size_t i = 0; i < s->set.data.n; i++)
		TRY(bind(s, s->set.data.v[i], s->set.data.v[i], err));
	return 0;
}

/* The image's variables tell where the image's MPI has its files. */
static void set_variables(const struct swap *s)
{
	static const char *const images[] = { "OPAL_PREFIX", "OPAL_LIBDIR", "PMIX_PREFIX",
		"PRTE_PREFIX", "I_MPI_ROOT", "FI_PROVIDER_PATH", "UCX_MODULE_DIR" };
	struct plan *p = s->plan;
	const char *old = plan_env_get(p, "LD_LIBRARY_PATH");
	auto_free char *path =
		old && *old ? xasprintf(MPI_HOST_DIR ":%s", old) : xstrdup(MPI_HOST_DIR);

	plan_env_set(p, "LD_LIBRARY_PATH", path, PLAN_FROM_MPI);
	/* A program that no launcher started would start a daemon, which the container lacks. */
	if (s->ours.family == MPI_OPEN && !job_rank_read(s->q->env).is_mpi &&
		!plan_env_get(p, "OMPI_MCA_ess_singleton_isolated"))
		plan_env_set(p, "OMPI_MCA_ess_singleton_isolated", "1", PLAN_FROM_MPI);
	for (size_t i = 0; i < ARRAY_LEN(images); i++)
		if (plan_env_origin(p, images[i]) == PLAN_FROM_IMAGE) {
			plan_remark_add(p, PLAN_FROM_MPI,
				"the image's %s is left out: it is for the image's MPI", images[i]);
			plan_env_unset(p, images[i]);
		}
}

static void tell_libraries(const struct swap *s, enum mpi_library_reason reason, const char *why)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *told = NULL;

	for (size_t i = 0; i < s->set.n; i++)
		if (s->set.v[i].reason == reason)
			strv_add(&names, s->set.v[i].name);
	told = strv_join(&names, TOLD_MAX, ", ");
	if (names.n > 0)
		plan_remark_add(s->plan, PLAN_FROM_MPI, "librar%s of this machine that %s: %s%s",
			names.n == 1 ? "y" : "ies", why, told, names.n > TOLD_MAX ? "…" : "");
}

static void tell(const struct swap *s)
{
	auto_free char *ours = full_name(s->ours.name, &s->ours.version), *theirs = NULL;

	if (s->theirs.name)
		theirs = full_name(s->theirs.name, &s->theirs.version);
	plan_remark_add(s->plan, PLAN_FROM_MPI, "this machine's %s ('%s/%s', %s) is used%s%s",
		mpi_family_name(s->ours.family), s->ours.dir, s->ours.name, ours,
		theirs ? " instead of the image's " : ": the image has none", theirs ? theirs : "");
	tell_libraries(s, MPI_LIBRARY_LACKS, "MPI needs and the image lacks");
	tell_libraries(s, MPI_LIBRARY_NEWER, "MPI needs and are newer than the image's");
}

/* A request for the machine's MPI means a program of several ranks; warn once for a step. */
static void tell_lack_of_pmi(const struct swap *s)
{
	struct job_rank rank = job_rank_read(s->q->env);
	const char *tasks = strv_env_get(s->q->env, "SLURM_STEP_NUM_TASKS");

	if (rank.is_mpi || !rank.number || strcmp(rank.number, "0") != 0 || !tasks ||
		strtol(tasks, NULL, 10) < 2)
		return;
	strv_addf(&s->plan->notes,
		"srun started these %s tasks without PMI, so they cannot find each other: "
		"srun --mpi=%s does",
		tasks, s->ours.family == MPI_OPEN ? "pmix" : "pmi2");
}

static int fill(struct swap *s, struct mlr_error *err)
{
	struct plan *p = s->plan;
	size_t first = p->n_mounts;

	TRY(plan_mount_add(
		p, PLAN_TMPFS, NULL, MPI_HOST_DIR, PLAN_NOSUID | PLAN_NODEV, PLAN_FROM_MPI, err));
	for (size_t i = 0; i < s->set.n; i++) {
		TRY(put_on_shelf(s, &s->set.v[i], err));
		TRY(add_aliases(s, &s->set.v[i], err));
	}
	TRY(add_modules(s, err));
	TRY(plan_mount_add(p, PLAN_SEAL, NULL, MPI_HOST_DIR, 0, PLAN_FROM_MPI, err));
	TRY(cover_all(s, err));
	plan_mounts_into_image(p, first);
	mpi_fabric_plan(p);
	set_variables(s);
	return 0;
}

int mpi_host_plan(const struct mpi_host_request *q, struct plan *p, struct mlr_error *err)
{
	auto_call(swap_done) struct swap s = { .q = q, .plan = p, .d = GPU_DIR_INIT };
	const char *root = mpi_fabric_root();
	int r;

	TRY(mlr_result(err, gpu_dir_open(root, &s.d), "'%s'", root));
	mpi_tree_of(&s.d, &s.machine);
	find_images(&s);
	r = find_machines(&s, err);
	if (r <= 0)
		return r;
	TRY(s.theirs.name ? check_family(&s, err) : 0);
	if (s.theirs.name)
		TRY(check_level(&s, err));
	TRY(mpi_library_collect(&s.host, &s.d, &s.image, &s.usual, &s.ours, &s.files, &s.set, err));
	TRY(check_libc(&s, err));
	tell(&s);
	tell_lack_of_pmi(&s);
	return fill(&s, err);
}
