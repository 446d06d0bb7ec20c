#include "exec/parts.h"

#include "job/job.h"
#include "oci/config.h"

#include <fnmatch.h>

#define ENV_FILE_MAX (1u << 20) /* bytes */
#define LOCALES      "/usr/lib/locale"

/* The shell's own state, and where its commands are. */
static const char *const shell_state[] = { "PWD", "OLDPWD", "SHLVL", "_", "PATH" };

/* Variables about the host's files: search paths, module systems, interpreters' environments. */
static const char *const host_only[] = { "LD_*", "PYTHON*", "CONDA*", "_CE_*", "MAMBA*",
	"VIRTUAL_ENV*", "MODULEPATH*", "MODULESHOME", "MODULES_*", "MODULERCFILE", "LOADEDMODULES*",
	"_LMFILES_*", "LMOD*", "__LMOD*", "_ModuleTable*", "__MODULES*", "BASH_FUNC_*", "BASH_ENV",
	"ENV", "MANPATH", "INFOPATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
	"LIBRARY_PATH", "PKG_CONFIG_*", "ACLOCAL_PATH", "CMAKE_PREFIX_PATH", "PERL5LIB", "PERL5OPT",
	"R_LIBS*", "GEM_*", "JAVA_HOME", "GCONV_PATH", "LOCPATH", "NLSPATH", "XDG_DATA_DIRS",
	"XDG_CONFIG_DIRS", "SHELL" };

/* Prefixes and search paths that break programs if they lead nowhere: of MPI and its parts, of
 * compilers and toolkits, of libraries' data. They stay where their directory is in the container.
 */
static const char *const host_paths[] = { "OPAL_*", "OMPI_MCA_*_path", "PMIX_PREFIX",
	"PMIX_MCA_*_path", "PRTE_PREFIX", "HPCX_*", "MPI_HOME", "MPI_ROOT", "MPICH_*DIR",
	"I_MPI_ROOT", "FI_PROVIDER_PATH", "UCX_MODULE_DIR", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT",
	"NVHPC*", "NCCL_HOME", "NCCL_ROOT", "ROCM_PATH", "ROCM_HOME", "HIP_PATH", "MKLROOT",
	"TBBROOT", "CMPLR_ROOT", "ONEAPI_ROOT", "PROJ_LIB", "PROJ_DATA", "GDAL_DATA",
	"GDAL_DRIVER_PATH", "TCL_LIBRARY", "TCLLIBPATH", "TK_LIBRARY", "QT_*PATH", "GTK_PATH",
	"GI_TYPELIB_PATH", "GST_PLUGIN_*", "FONTCONFIG_*", "XKB_CONFIG_ROOT", "TERMINFO*",
	"GIT_EXEC_PATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "SSL_CERT_DIR",
	"HDF5_PLUGIN_PATH", "HDF5_DIR", "MAGIC", "GOROOT", "RUSTUP_HOME", "MPLCONFIGDIR" };

/* Caches that are written: kept, but what is written there ends with the container. */
static const char *const caches[] = { "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE",
	"TRANSFORMERS_CACHE", "TORCH_HOME", "XDG_CACHE_HOME", "PIP_CACHE_DIR", "CARGO_HOME",
	"TRITON_CACHE_DIR", "NUMBA_CACHE_DIR", "KERAS_HOME" };

/* Locales by category (locale(7)); other names that begin with LC_ are whatever ssh passes on. */
static const char *const locales[] = { "LANG", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME",
	"LC_COLLATE", "LC_MONETARY", "LC_MESSAGES", "LC_PAPER", "LC_NAME", "LC_ADDRESS",
	"LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION" };

/* Variables that --clearenv keeps besides job_sets(): the job's GPUs. */
static const char *const job_gpus[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
	"GPU_DEVICE_ORDINAL" };

/* Does key match a name in which one "*" may stand for any text? */
static int matches_one(const char *key, const char *pattern)
{
	const char *star = strchr(pattern, '*');
	size_t begin = star ? (size_t)(star - pattern) : 0, end = star ? strlen(star + 1) : 0;
	size_t len = strlen(key);

	if (pattern[0] != key[0] && pattern[0] != '*')
		return 0;
	if (!star)
		return strcmp(key, pattern) == 0;
	return len >= begin + end && strncmp(key, pattern, begin) == 0 &&
		strcmp(key + len - end, star + 1) == 0;
}

static int matches(const char *key, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n && patterns[i]; i++)
		if (matches_one(key, patterns[i]))
			return 1;
	return 0;
}

static int is_dropped(const struct exec_options *o, const char *key)
{
	const struct dialect *d = exec_dialect_of(o);

	if (matches(key, shell_state, ARRAY_LEN(shell_state)))
		return 1;
	if (o->clearenv && !job_sets(key) && !matches(key, job_gpus, ARRAY_LEN(job_gpus)) &&
		!matches(key, d->kept, ARRAY_LEN(d->kept)))
		return 1;
	return matches(key, d->hidden, ARRAY_LEN(d->hidden)) ||
		(d->hides_hosts && matches(key, host_only, ARRAY_LEN(host_only)));
}

static void add_callers(const struct exec_options *o, char *const *caller, struct plan *p)
{
	for (; *caller; caller++) {
		const char *eq = strchr(*caller, '=');

		if (!eq || eq == *caller)
			continue;
		auto_free char *key = xstrndup(*caller, (size_t)(eq - *caller));

		if (is_dropped(o, key))
			strv_take(&p->dropped, take_ptr(&key));
		else
			plan_env_set(p, key, eq + 1, PLAN_FROM_CALLER);
	}
}

/* Set "K=V", or "K" to the caller's value if any (like docker). */
static int add_text(const char *text, char *const *caller, struct plan *p, enum plan_origin origin,
	struct mlr_error *err)
{
	const char *eq = strchr(text, '=');
	auto_free char *key = eq ? xstrndup(text, (size_t)(eq - text)) : xstrdup(text);
	const char *value = eq ? eq + 1 : strv_env_get(caller, key);

	if (!*key || strpbrk(key, " \t"))
		return mlr_fail(err, EINVAL, "invalid variable '%s': use K=V or K", text);
	if (value)
		plan_env_set(p, key, value, origin);
	return 0;
}

/* Lines, of which some are comments; or, if there is a NUL, what `env -0` prints. */
static int add_file(const char *name, char *const *caller, struct plan *p, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len = 0;
	int line = 0, is_raw;

	if (file_read(AT_FDCWD, name, ENV_FILE_MAX, &text, &len, err) < 0)
		return mlr_wrap(err, "--env-file");
	is_raw = strlen(text) != len;
	for (char *s = text, *next; s < text + len; s = next) {
		line++;
		next = s + strcspn(s, is_raw ? "" : "\n") + 1;
		next[-1] = '\0';
		if (!is_raw) {
			s += strspn(s, " \t");
			s[strcspn(s, "\r")] = '\0';
		}
		if (*s == '\0' || (*s == '#' && !is_raw))
			continue;
		if (add_text(s, caller, p, PLAN_FROM_USER, err) < 0)
			return mlr_wrap(err, "--env-file: '%s' line %d", name, line);
	}
	return 0;
}

/* ksh's globs too, as in ch-run(1). HOME stays: it is the home inside. */
static void unset(const struct strv *globs, struct plan *p)
{
	for (size_t g = 0; g < globs->n; g++)
		for (size_t i = p->n_env; i-- > 0;) {
			auto_free char *key = xstrdup(p->env[i].key);

			if (strcmp(key, "HOME") == 0 ||
				fnmatch(globs->v[g], key, FNM_EXTMATCH) != 0)
				continue;
			plan_env_unset(p, key);
			strv_take(&p->dropped, take_ptr(&key));
		}
}

static void add_default(struct plan *p, const char *key, const char *value)
{
	if (!plan_env_get(p, key))
		plan_env_set(p, key, value, PLAN_FROM_DEFAULT);
}

static void add_defaults(const struct exec_options *o, struct plan *p)
{
	add_default(p, "PATH", OCI_DEFAULT_PATH);
	if (!o->apart && exec_dialect_of(o)->hides_hosts)
		add_default(p, "PYTHONNOUSERSITE", "1");
	if (o->clearenv && exec_dialect_of(o)->kept[0])
		add_default(p, "LANG", "C");
}

static int add_options(
	const struct exec_options *o, char *const *caller, struct plan *p, struct mlr_error *err)
{
	int r;

	for (size_t i = 0; i < o->env_files.n; i++) {
		TRY(add_file(o->env_files.v[i], caller, p, err));
	}
	for (size_t i = 0; i < o->env.n; i++) {
		r = add_text(o->env.v[i], caller, p, PLAN_FROM_USER, err);
		if (r < 0)
			return mlr_wrap(err, "-e");
	}
	return 0;
}

/* Add the variables of the site's and the user's configuration. */
static int add_configured(
	const struct config *c, char *const *caller, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; c && i < c->n; i++) {
		const struct config_value *v = &c->v[i];

		if (strcmp(v->section, "exec") != 0 || strcmp(v->key, "env") != 0)
			continue;
		int r = add_text(
			v->value, caller, p, v->is_sites ? PLAN_FROM_SITE : PLAN_FROM_CONFIG, err);

		if (r < 0)
			return mlr_wrap(err, "%s:%d", v->file, v->line);
	}
	return 0;
}

int environment_plan(const struct exec_options *o, char *const *caller, const struct strv *image,
	struct plan *p, struct mlr_error *err)
{
	const char *home;

	if (!o->apart)
		add_callers(o, caller, p);
	home = plan_env_get(p, "HOME");
	if (!home || strcmp(home, p->id.home) != 0)
		plan_env_set(p, "HOME", p->id.home, PLAN_FROM_DEFAULT);
	for (size_t i = 0; i < image->n; i++)
		/* An image's invalid variable is no reason not to run it. */
		if (strchr(image->v[i], '='))
			add_text(image->v[i], caller, p, PLAN_FROM_IMAGE, NULL);
	unset(&o->unset_env, p);
	TRY(add_configured(o->config, caller, p, err));
	TRY(add_options(o, caller, p, err));
	add_defaults(o, p);
	return 0;
}

int environment_plan_joined(const struct exec_options *o, char *const *caller,
	const struct strv *joined, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < joined->n; i++)
		if (strchr(joined->v[i], '='))
			add_text(joined->v[i], caller, p, PLAN_FROM_JOINED, NULL);
	if (exec_dialect_of(o)->begins_anew) {
		auto_free char *home =
			xstrdup(plan_env_get(p, "HOME") ? plan_env_get(p, "HOME") : "/");

		add_callers(o, caller, p);
		plan_env_set(p, "HOME", home, PLAN_FROM_JOINED);
	}
	unset(&o->unset_env, p);
	return add_options(o, caller, p, err);
}

static int is_callers(const struct plan *p, const char *key)
{
	return plan_env_origin(p, key) == PLAN_FROM_CALLER;
}

static void drop_unmounted(struct plan *p, const char *name)
{
	const char *value = plan_env_get(p, name);

	plan_remark_add(p, PLAN_FROM_DEFAULT,
		"omitted %s: '%s' is not in the container; -v %s mounts it", name, value, value);
	strv_add(&p->dropped, name);
	plan_env_unset(p, name);
}

/* Is the directory mounted from the host, or in memory for this path? */
static int is_there(const struct plan *p, const char *path)
{
	if (plan_covers(p, path))
		return 1;
	for (size_t i = 0; i < p->n_mounts; i++)
		if (p->mounts[i].kind == PLAN_TMPFS && strcmp(p->mounts[i].target, path) == 0)
			return 1;
	return 0;
}

/* Without its cookie no program may talk to the X server that DISPLAY names. */
static void remark_cookie(struct plan *p)
{
	const char *file = plan_env_get(p, "XAUTHORITY"), *home = getenv("HOME");
	auto_free char *cookie = file && *file ? xstrdup(file)
		: home                         ? xasprintf("%s/.Xauthority", home)
					       : NULL;
	auto_free char *path = cookie ? path_clean(cookie) : NULL;

	if (is_callers(p, "DISPLAY") && path && access(path, F_OK) == 0 && !plan_covers(p, path))
		plan_remark_add(p, PLAN_FROM_DEFAULT,
			"DISPLAY: the X server's cookie '%s' is not mounted; -v %s mounts it", path,
			path);
}

static int is_locale(const struct plan_env *e)
{
	return matches(e->key, locales, ARRAY_LEN(locales)) && *e->value &&
		strncmp(e->value, "C.", 2) != 0 && strcmp(e->value, "C") != 0 &&
		strcmp(e->value, "POSIX") != 0 && !strpbrk(e->value, "/:");
}

/* Replace a locale that the image lacks: of such a one bash and perl complain, in each rank.
 * glibc's are in one archive, or in a directory each, "en_US.UTF-8" or "en_US.utf8" (localedef(1)).
 */
static void keep_known_locale(struct plan_env *e)
{
	const char *codeset = e->value + strcspn(e->value, ".");
	auto_free char *plain = xstrndup(e->value, (size_t)(codeset - e->value));

	e->otherwise = "C.UTF-8";
	e->if_there = xasprintf(LOCALES "/locale-archive:" LOCALES "/%s:" LOCALES "/%s%s", e->value,
		plain, *codeset ? ".utf8" : "");
}

/* Keep a path only if it is inside, and say so of a cache that is not. */
static void keep_inside(struct plan *p, struct plan_env *e)
{
	/* Variables about the host's files are there in Pyxis's dialect only. */
	int is_path = matches(e->key, host_paths, ARRAY_LEN(host_paths)) ||
		(!strchr(e->value, ':') && matches(e->key, host_only, ARRAY_LEN(host_only)));
	auto_free char *path = path_clean(e->value);

	if (is_there(p, path))
		return;
	if (is_path)
		e->if_there = xstrdup(e->value);
	else if (matches(e->key, caches, ARRAY_LEN(caches)))
		plan_remark_add(p, PLAN_FROM_DEFAULT,
			"%s: '%s' is not mounted, so what is written there is lost; -v %s mounts it",
			e->key, e->value, e->value);
}

void environment_drop_unmounted(struct plan *p)
{
	static const char *const names[] = { "TMPDIR", "TMP", "TEMP", "TEMPDIR", "XAUTHORITY",
		"XDG_RUNTIME_DIR" };

	remark_cookie(p);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = is_callers(p, names[i]) ? plan_env_get(p, names[i]) : NULL;
		auto_free char *path = value ? path_clean(value) : NULL;

		if (value && (!path || !is_there(p, path)))
			drop_unmounted(p, names[i]);
	}
	for (size_t i = 0; i < p->n_env; i++) {
		struct plan_env *e = &p->env[i];

		if (e->origin == PLAN_FROM_CALLER && e->value[0] == '/')
			keep_inside(p, e);
		else if (e->origin == PLAN_FROM_CALLER && is_locale(e))
			keep_known_locale(e);
	}
}
