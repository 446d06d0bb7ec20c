#include "tensor/plugin.h"

#include "config.h"

#include <dlfcn.h>

/* The plugins' directory relative to that of the programs: "../lib/mlrun". NULL if the directories
 * given to configure have nothing in common. */
static const char *from_bin(void)
{
	size_t n = strlen(PREFIX);

	if (strncmp(PLUGINDIR, PREFIX "/", n + 1) != 0 || strcmp(BINDIR, PREFIX "/bin") != 0)
		return NULL;
	return &PLUGINDIR[n + 1];
}

static char *in(const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/mltrain-%s.so", dir, name);

	return access(path, F_OK) == 0 ? take_ptr(&path) : NULL;
}

/* The plugin beside this program, or in the plugins' directory relative to it; NULL if neither. */
static char *beside_program(const char *name)
{
	auto_free char *self = realpath("/proc/self/exe", NULL), *dir = NULL;
	char *slash = self ? strrchr(self, '/') : NULL, *path;

	if (!slash)
		return NULL;
	*slash = '\0';
	path = in(self, name);
	if (path || !from_bin())
		return path;
	dir = xasprintf("%s/../%s", self, from_bin());
	return in(dir, name);
}

static int missing(const char *name, struct mlr_error *err)
{
	const char *dir = getenv("MLTRAIN_PLUGINS");

	mlr_fail(
		err, ENOENT, "mltrain-%s.so is not installed in '%s'", name, dir ? dir : PLUGINDIR);
	if (dir)
		return mlr_hint(err, "the variable MLTRAIN_PLUGINS tells where to look");
	return mlr_hint(err,
		"build mltrain with --with-%s, or set MLTRAIN_PLUGINS to the "
		"directory that it is in",
		name);
}

/* For a missing library, dlerror(3) says "libmpi.so.40: cannot open shared object file: ...". */
static int not_loaded(const char *name, const char *path, const char *why, struct mlr_error *err)
{
	const char *end = strstr(why, ": cannot open shared object file");

	mlr_fail(err, ELIBACC, "load plugin '%s': %s", path, why);
	if (end && strncmp(why, path, strlen(path)) != 0)
		return mlr_hint(err,
			"install the library %.*s, or name its directory in "
			"LD_LIBRARY_PATH",
			(int)(end - why), why);
	return mlr_hint(err, "build mltrain again on this system, --with-%s", name);
}

char *plugin_path(const char *name)
{
	const char *dir = getenv("MLTRAIN_PLUGINS");
	char *path;

	if (dir && *dir)
		return in(dir, name);
	path = beside_program(name);
	return path ? path : in(PLUGINDIR, name);
}

int plugin_open(const char *name, const struct plugin **ret, struct mlr_error *err)
{
	auto_free char *path = plugin_path(name), *symbol = xasprintf("mltrain_%s", name);
	const struct plugin *p;
	void *so;

	if (!path)
		return missing(name, err);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return not_loaded(name, path, dlerror(), err);
	p = dlsym(so, symbol);
	if (!p || !p->version) {
		mlr_fail(
			err, EPROTO, "'%s' is not a plugin of mltrain: it has no %s", path, symbol);
		return mlr_hint(err, "install mltrain again");
	}
	if (strcmp(p->version, PACKAGE_VERSION) != 0) {
		mlr_fail(err, EPROTO, "plugin '%s' belongs to mltrain %s, and this is %s", path,
			p->version, PACKAGE_VERSION);
		return mlr_hint(err, "install both from the same build");
	}
	*ret = p;
	return 0;
}
