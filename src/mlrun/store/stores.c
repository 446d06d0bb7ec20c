#include "store/stores.h"

#include "base/home.h"

static void told_by(char **origin, char *take)
{
	if (origin)
		*origin = take;
	else
		free(take);
}

int store_place(const struct config *c, char **ret, char **origin, struct mlr_error *err)
{
	const char *dir = getenv("MLRUN_STORE"), *xdg = getenv("XDG_DATA_HOME");
	const struct config_value *v = config_get(c, "", "store");
	auto_free char *data = NULL;

	/* A relative one would mean another store in every directory. */
	if (dir && *dir && dir[0] != '/') {
		mlr_fail(err, EINVAL, "MLRUN_STORE='%s': expected an absolute path", dir);
		return mlr_hint(err, "--store takes a relative one");
	}
	if (dir && *dir) {
		*ret = xstrdup(dir);
		told_by(origin, xstrdup("MLRUN_STORE"));
		return 0;
	}
	if (v) {
		*ret = xstrdup(v->value);
		told_by(origin, xasprintf("%s:%d", v->file, v->line));
		return 0;
	}
	data = home_xdg_dir("XDG_DATA_HOME", ".local/share", err);
	if (!data) {
		mlr_wrap(err, "no place for the store");
		mlr_hint(err, "name one with --store or MLRUN_STORE");
		return -ENOENT;
	}
	*ret = xasprintf("%s/mlrun", data);
	told_by(origin, xstrdup(xdg && xdg[0] == '/' ? "XDG_DATA_HOME" : "default"));
	return 0;
}

char *store_place_nearest(const char *path)
{
	auto_free char *cwd = path[0] == '/' ? xstrdup("") : getcwd(NULL, 0);
	auto_free char *absolute = xasprintf("%s/%s", cwd ? cwd : "", path);
	char *dir = path_clean(absolute);
	struct stat sb;

	while (dir[1] && stat(dir, &sb) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		char *slash = strrchr(dir, '/');

		slash[slash == dir] = '\0';
	}
	return dir;
}

static void add(struct stores *s, struct store *take)
{
	*xadd(s->v, s->n) = take;
}

/* A directory with two names is one store. */
static int is_same(const struct store *a, const struct store *b)
{
	struct stat x, y;

	return fstat(store_fd(a), &x) == 0 && fstat(store_fd(b), &y) == 0 && file_is_one(&x, &y);
}

static void add_one(struct stores *s, const struct store *own, const char *dir)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct store *st = NULL;
	int r = store_open(dir, 0, &st, &err), known = 0;

	if (r < 0) {
		if (r != -ENOENT)
			mlr_log_failure(MLR_WARNING, &err, ", ignoring this additional store");
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		known |= is_same(s->v[i], st);
	if (known || (own && is_same(own, st)))
		store_close(st);
	else
		add(s, st);
}

/* Add the stores of a colon-separated list; empty words are ignored. */
static void add_list(struct stores *s, const struct store *own, const char *list)
{
	auto_free char *copy = xstrdup(list);
	char *save = NULL;

	for (char *w = strtok_r(copy, ":", &save); w; w = strtok_r(NULL, ":", &save))
		add_one(s, own, w);
}

static void open_additional(const struct store *own, const struct config *c, struct stores *ret)
{
	auto_strv struct strv lists = STRV_INIT;
	const char *env = getenv("MLRUN_STORES");

	if (env)
		strv_add(&lists, env);
	else
		config_list(c, "", "additional_stores", &lists);
	for (size_t i = 0; i < lists.n; i++)
		add_list(ret, own, lists.v[i]);
}

int stores_open_additional(const struct store *own, struct stores *ret, struct mlr_error *err)
{
	auto_call(config_done) struct config c = { 0 };

	TRY(getenv("MLRUN_STORES") ? 0 : config_load(&c, err));
	open_additional(own, &c, ret);
	return 0;
}

/* Open the user's own store. If it does not exist, *ret stays NULL and err says so. */
static int open_own(
	const char *dir, const struct config *c, struct store **ret, struct mlr_error *err)
{
	auto_free char *place = NULL;

	TRY(dir ? 0 : store_place(c, &place, NULL, err));
	return store_open(dir ? dir : place, 0, ret, err);
}

static int open_all(
	const char *dir, const struct config *c, struct stores *ret, struct mlr_error *err)
{
	auto_call(stores_close) struct stores s = { 0 };
	struct mlr_error first = MLR_ERROR_INIT;
	struct store *own = NULL;
	int absent = open_own(dir, c, &own, &first);

	if (err)
		*err = first;
	if (absent < 0 && absent != -ENOENT)
		return absent;
	if (own) {
		add(&s, own);
		s.has_own = 1;
	}
	open_additional(own, c, &s);
	if (s.n == 0)
		return absent;
	*ret = take_struct(&s, { 0 });
	return 0;
}

int stores_open(const char *dir, const struct config *c, struct stores *ret, struct mlr_error *err)
{
	auto_call(config_done) struct config read = { 0 };

	TRY(c ? 0 : config_load(&read, err));
	return open_all(dir, c ? c : &read, ret, err);
}

void stores_close(struct stores *s)
{
	for (size_t i = 0; i < s->n; i++)
		store_close(s->v[i]);
	free(s->v);
	*s = (struct stores){ 0 };
}

int stores_find(const struct stores *s, const struct oci_name *name, struct store **st,
	struct store_image *ret, struct mlr_error *err)
{
	int r = -ENOENT;

	for (size_t i = 0; i < s->n && r == -ENOENT; i++) {
		r = store_image_find_name(s->v[i], name, ret, i == 0 ? err : NULL);
		if (r == 0)
			*st = s->v[i];
		else if (r != -ENOENT && i > 0) /* report this instead of "not in store" */
			r = store_image_find_name(s->v[i], name, ret, err);
	}
	return r;
}
