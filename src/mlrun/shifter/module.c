#include "shifter/module.h"

#include "shifter/volume.h"

/* Names that sites agree on, by what mlrun has for them. */
static const struct known {
	const char *name;
	const char *fs; /* mounted if it exists; or NULL */
	int is_mpi;     /* the host's MPI */
} known[] = {
	{ "gpu", NULL, 0 }, /* mlrun brings the job's GPUs anyway */
	{ "mpich", NULL, 1 },
	{ "cuda-mpich", NULL, 1 },
	{ "cvmfs", "/cvmfs", 0 },
};

static const struct known *find_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return &known[i];
	return NULL;
}

/* --- choice -------------------------------------------------------------------- */

static void add_names(struct strv *to, const char *text)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *name;

	while ((name = strsep(&rest, ",")))
		if (*name && strcmp(name, "none") != 0 && !strv_has(to, name))
			strv_add(to, name);
}

static void add_name(char **list, const char *name)
{
	auto_free char *before = *list;

	*list = xasprintf("%s, %s", before, name);
}

static int fail_unknown(const char *name, const struct udiroot *u, struct mlr_error *err)
{
	auto_free char *names = xstrdup("none");

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		add_name(&names, known[i].name);
	for (size_t i = 0; i < u->n_modules; i++)
		if (!find_known(u->modules[i].name))
			add_name(&names, u->modules[i].name);
	mlr_fail(err, ENOENT, "module '%s' is not known here", name);
	mlr_hint(err, "known: %s", names);
	return -ENOENT;
}

static int check(
	const char *name, const struct strv *all, const struct udiroot *u, struct mlr_error *err)
{
	const struct udiroot_module *m = udiroot_module_named(u, name);

	if (!m)
		return find_known(name) ? 0 : fail_unknown(name, u, err);
	if (m->is_off)
		return mlr_fail(err, EINVAL, "module '%s' is switched off by the site", name);
	if (m->root_hook)
		return mlr_fail(err, EINVAL,
			"module '%s' has a roothook, which needs root; mlrun never has it: siteFs, siteEnv "
			"and userhook do without",
			name);
	for (size_t i = 0; i < m->conflicts.n; i++)
		if (strv_has(all, m->conflicts.v[i]))
			return mlr_fail(err, EINVAL, "modules '%s' and '%s' exclude each other",
				name, m->conflicts.v[i]);
	return 0;
}

int shifter_modules_choose(
	const struct strv *asked, const struct udiroot *u, struct strv *ret, struct mlr_error *err)
{
	const char *spanks = getenv("SLURM_SPANK_SHIFTER_MODULE");
	const char *env = spanks && *spanks ? spanks : getenv("SHIFTER_MODULE");

	for (size_t i = 0; i < asked->n; i++)
		add_names(ret, asked->v[i]);
	if (asked->n == 0 && env && *env)
		add_names(ret, env);
	else if (asked->n == 0)
		for (size_t i = 0; i < u->standard_modules.n; i++)
			add_names(ret, u->standard_modules.v[i]);
	for (size_t i = 0; i < ret->n; i++) {
		TRY(check(ret->v[i], ret, u, err));
	}
	return 0;
}

/* --- what they bring ------------------------------------------------------------ */

static int add_fs(const struct udiroot_set *set, struct exec_options *o, struct mlr_error *err)
{
	for (size_t i = 0; i < set->fs.n; i++) {
		int r = shifter_volumes_add(set->fs.v[i], 1, o, err);

		if (r < 0)
			return mlr_wrap(err, "udiRoot.conf: siteFs");
	}
	return 0;
}

static int add_module(
	const char *name, const struct udiroot *u, struct exec_options *o, struct mlr_error *err)
{
	const struct udiroot_module *m = udiroot_module_named(u, name);
	const struct known *k = find_known(name);

	if (k && k->fs && access(k->fs, F_OK) == 0)
		strv_add(&o->volumes, k->fs);
	if (k && k->is_mpi)
		o->mpi = EXEC_MPI_HOST;
	if (m && m->copy_path)
		strv_addf(&o->volumes, "%s:/opt/udiImage/modules/%s:ro", m->copy_path, name);
	return m ? add_fs(&m->set, o, err) : 0;
}

int shifter_modules_options(const struct strv *modules, const struct udiroot *u,
	struct exec_options *o, struct mlr_error *err)
{
	TRY(add_fs(&u->site, o, err));
	for (size_t i = 0; i < modules->n; i++)
		TRY(add_module(modules->v[i], u, o, err));
	return 0;
}

/* Add a value at the end or the beginning of a list that colons separate. */
static void extend(struct plan *p, const char *text, int at_end)
{
	const char *equals = strchr(text, '='), *old;
	auto_free char *key = NULL, *value = NULL;

	if (!equals)
		return;
	key = xstrndup(text, (size_t)(equals - text));
	old = plan_env_get(p, key);
	if (!old || !*old)
		value = xstrdup(equals + 1);
	else if (at_end)
		value = xasprintf("%s:%s", old, equals + 1);
	else
		value = xasprintf("%s:%s", equals + 1, old);
	plan_env_set(p, key, value, PLAN_FROM_SITE);
}

static void set_env(const struct udiroot_set *set, struct plan *p)
{
	for (size_t i = 0; i < set->env.n; i++) {
		const char *text = set->env.v[i], *equals = strchr(text, '=');
		auto_free char *key = equals ? xstrndup(text, (size_t)(equals - text)) : NULL;

		if (key)
			plan_env_set(p, key, equals + 1, PLAN_FROM_SITE);
	}
	for (size_t i = 0; i < set->prepend.n; i++)
		extend(p, set->prepend.v[i], 0);
	for (size_t i = 0; i < set->append.n; i++)
		extend(p, set->append.v[i], 1);
	for (size_t i = 0; i < set->unset.n; i++)
		plan_env_unset(p, set->unset.v[i]);
}

void shifter_modules_env(const struct strv *modules, const struct udiroot *u, struct plan *p)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct udiroot_module *m = udiroot_module_named(u, modules->v[i]);

		if (m)
			set_env(&m->set, p);
	}
	set_env(&u->site, p);
}
