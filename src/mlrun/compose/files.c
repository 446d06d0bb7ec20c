/* Reads files, and those that they extend and include, into one (13-merge.md and 14-include.md of
 * the specification). */
#include "compose/parts.h"

#define FILE_MAX   (1u << 20)  /* bytes */
#define TEXTS_MAX  (64u << 20) /* bytes of all values, with their variables */
#define FILES_MAX  300
#define VALUES_MAX 400000
#define DEPTH_MAX  16 /* of files that include others, and of services that extend others */

/* What relative paths and variables of a file mean. */
struct scope {
	const char *directory;
	compose_lookup look;
	void *ctx;
	struct strv variables; /* an included file's own, which the project's win over */
	const struct scope *above;
};

struct loader {
	struct compose_reader *c;
	const struct scope *scope; /* of the file that is read */
	size_t first;              /* of the files that were read in this scope */
	size_t n, bytes, depth;
	struct mlr_error *err;
};

static const char *look_up(void *ctx, const char *name)
{
	const struct scope *s = ctx;
	const char *value = s->above ? look_up((void *)s->above, name) : s->look(s->ctx, name);

	return value ? value : strv_env_get(strv_argv(&s->variables), name);
}

/* --- one file -------------------------------------------------------------------------------- */

/* Put variables into a text. All that are missing are said at once. */
static int replace(void *ctx, size_t line, const char *text, char **ret, struct mlr_error *err)
{
	struct loader *l = ctx;
	struct mlr_error why = MLR_ERROR_INIT;

	*ret = compose_interpolate(text, look_up, (void *)l->scope, &why);
	if (!*ret) {
		mlr_wrap(&why, "'%s' line %zu", l->c->lines.file, line);
		strv_add(l->c->refused, why.text);
		*ret = xstrdup("");
	}
	l->bytes += strlen(*ret);
	return l->bytes > TEXTS_MAX
		? mlr_fail(err, EINVAL, "line %zu: the values are too long in all", line)
		: 0;
}

/* Only comments, as in a file that a variable chooses to include nothing. */
static int is_empty(const char *s)
{
	for (s += strspn(s, " \t\r\n"); *s == '#'; s += strspn(s, " \t\r\n"))
		s += strcspn(s, "\n");
	return !*s;
}

static int parse(struct loader *l, const char *file, const char *text, size_t size, json_t **ret)
{
	struct mlr_yaml_lines *lines = &l->c->lines;
	json_t *v = NULL;

	if (l->n++ == FILES_MAX || lines->n > VALUES_MAX)
		return mlr_fail(l->err, EINVAL, "'%s': too many files, or too many values", file);
	strv_add(&l->c->files, file);
	lines->file = l->c->files.v[l->c->files.n - 1];
	lines->text = replace;
	lines->ctx = l;
	if (is_empty(text))
		v = json_object();
	else if (mlr_yaml_load(text, size, MLR_YAML_TEXTS, lines, &v, l->err) < 0)
		return mlr_wrap(l->err, "'%s'", file);
	/* Places of values that are no longer there would lead to others. */
	json_array_append_new(l->c->read, v);
	*ret = v;
	return json_is_object(v) ? 0 : mlr_fail(l->err, EINVAL, "'%s': no mapping", file);
}

/* Write the absolute path of a file; to free(). NULL: err says why. */
static char *find(struct loader *l, const char *directory, const char *path)
{
	if (strstr(path, "://") || strncmp(path, "git@", 4) == 0) {
		mlr_fail(l->err, EINVAL, "'%s' is no file of this machine", path);
		mlr_hint(l->err, "fetch it, and name the file");
		return NULL;
	}
	return compose_below(directory, path);
}

static int read_file(struct loader *l, const char *path, json_t **ret)
{
	auto_free char *text = NULL;
	size_t len = 0;

	TRY(file_read_regular(AT_FDCWD, path, FILE_MAX, &text, &len, l->err));
	return parse(l, path, text, len, ret);
}

/* --- paths ----------------------------------------------------------------------------------- */

/* Make a path absolute: a text, that of a mapping's key, or each of a list. dotted: what does not
 * begin with a dot is a name. */
static json_t *move(const char *directory, const json_t *v, const char *key, int dotted)
{
	const char *text = json_string_value(v);
	json_t *ret, *item = json_object_get(v, key);
	size_t i;

	if (text && *text && !strchr("/~", *text) && !strstr(text, "://") &&
		(!dotted || *text == '.')) {
		auto_free char *whole = xasprintf("%s/%s", directory, text);

		return json_string_nocheck(whole);
	}
	if (!json_is_array(v) && !item)
		return json_incref((json_t *)v);
	ret = json_copy((json_t *)v);
	if (item)
		json_object_set_new(ret, key, move(directory, item, key, dotted));
	json_array_foreach((json_t *)v, i, item)
		json_array_set_new(ret, i, move(directory, item, key, dotted));
	return ret;
}

/* The same for a service, volume, secret or config of another directory's file. */
static json_t *move_all(const json_t *v, const char *directory)
{
	static const struct {
		const char *name, *key;
		int dotted;
	} rows[] = { { "build", "context", 0 }, { "env_file", "path", 0 },
		{ "volumes", "source", 1 }, { "file", "", 0 }, { "driver_opts", "device", 1 } };
	json_t *ret = json_copy((json_t *)v);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const json_t *item = json_object_get(v, rows[i].name);

		if (item)
			json_object_set_new(ret, rows[i].name,
				move(directory, item, rows[i].key, rows[i].dotted));
	}
	return ret;
}

/* --- extends --------------------------------------------------------------------------------- */

struct file {
	const json_t *v;
	const char *name, *directory;
};

static int extend(
	struct loader *l, const struct file *f, const char *name, unsigned depth, json_t **ret);

/* Read another file's service; the file once. */
static int extend_other(struct loader *l, const char *directory, const char *from, const char *name,
	unsigned depth, json_t **ret)
{
	auto_free char *path = find(l, directory, from),
		       *its = path ? compose_below(path, "..") : NULL;
	struct file f = { NULL, path, its };
	json_auto_t *service = NULL;
	json_t *read = NULL;

	if (!path)
		return -EINVAL;

	for (size_t i = l->first; i < l->c->files.n && !read; i++)
		if (strcmp(l->c->files.v[i], path) == 0)
			read = json_array_get(l->c->read, i);
	if (!read)
		TRY(read_file(l, path, &read));
	f.v = read;
	TRY(extend(l, &f, name, depth, &service));
	*ret = strcmp(l->scope->directory, its) == 0 ? json_incref(service)
						     : move_all(service, its);
	return 0;
}

/* Put what a service extends before it. */
static int extend(
	struct loader *l, const struct file *f, const char *name, unsigned depth, json_t **ret)
{
	const json_t *v = json_object_get(json_object_get(f->v, "services"), name),
		     *what = json_object_get(v, "extends");
	const char *from = json_string_value(json_object_get(what, "file")),
		   *service = json_string_value(
			   json_is_string(what) ? what : json_object_get(what, "service"));
	json_auto_t *base = NULL, *over = NULL;

	if (!json_is_object(v))
		return mlr_fail(l->err, EINVAL, "'%s': there is no service '%s'", f->name, name);
	if (!what) {
		*ret = json_incref((json_t *)v);
		return 0;
	}
	if (!service || depth > DEPTH_MAX)
		return mlr_fail(l->err, EINVAL, "'%s': services.%s.extends: %s", f->name, name,
			service ? "it extends itself, or too many others"
				: "the key 'service' is missing");
	TRY(from ? extend_other(l, f->directory, from, service, depth + 1, &base)
		 : extend(l, f, service, depth + 1, &base));
	over = json_copy((json_t *)v);
	json_object_del(over, "extends");
	*ret = compose_merge(base, over, COMPOSE_SERVICE);
	return 0;
}

/* Returns the file's mapping with all that its services extend; to json_decref(). */
static int extend_all(struct loader *l, const struct file *f, json_t **ret)
{
	const json_t *services = json_object_get(f->v, "services");
	json_auto_t *all = NULL;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)services, key, v) {
		json_t *whole = NULL;

		if (!json_object_get(v, "extends"))
			continue;
		TRY(extend(l, f, key, 0, &whole));
		if (!all)
			all = json_copy((json_t *)services);
		json_object_set_new(all, key, whole);
	}
	*ret = all ? json_copy((json_t *)f->v) : json_incref((json_t *)f->v);
	if (all)
		json_object_set(*ret, "services", all);
	return 0;
}

/* --- include --------------------------------------------------------------------------------- */

/* Add what an included file has of a kind. */
static int import(
	struct loader *l, const char *path, const json_t *from, const char *kind, json_t *into)
{
	const json_t *before = json_object_get(into, kind);
	json_auto_t *all = json_is_object(before) ? json_copy((json_t *)before) : json_object();
	const char *key;
	json_t *v;

	json_object_foreach(json_object_get(from, kind), key, v) {
		json_auto_t *moved = move_all(v, l->scope->directory);
		const json_t *is = json_object_get(all, key);

		if (is && !json_equal(is, moved))
			return mlr_fail(l->err, EINVAL, "'%s': %s.%s is there already, and differs",
				path, kind, key);
		json_object_set(all, key, moved);
	}
	if (json_object_size(all) > 0)
		json_object_set(into, kind, all);
	return 0;
}

/* The texts of a list, or the only one. */
static void take_texts(const json_t *v, struct strv *ret)
{
	json_t *item;
	size_t i;

	if (json_is_string(v))
		strv_add(ret, json_string_value(v));
	json_array_foreach((json_t *)v, i, item)
		strv_add(ret, json_is_string(item) ? json_string_value(item) : "");
}

static int read_variables(struct loader *l, const json_t *files, struct scope *s)
{
	auto_strv struct strv names = STRV_INIT;

	take_texts(files, &names);
	if (names.n == 0)
		strv_add(&names, ".env");
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = compose_below(
				       files ? l->scope->directory : s->directory, names.v[i]),
			       *text = NULL;
		int e = file_read_regular(AT_FDCWD, path, FILE_MAX, &text, NULL, l->err);

		if (e == -ENOENT && !files)
			return 0;
		TRY(e);
		TRY(compose_env_parse(
			text, path, look_up, (void *)l->scope, &s->variables, l->err));
	}
	return 0;
}

static int read_set(struct loader *l, const struct strv *paths, json_t **ret);

/* An item of "include": a path, or a mapping. */
static int include(struct loader *l, const json_t *v, json_t *into)
{
	static const char *const kinds[] = { "services", "volumes", "secrets", "configs" };
	const json_t *path = json_is_object(v) ? json_object_get(v, "path") : v;
	const char *said = json_string_value(json_object_get(v, "project_directory"));
	const struct scope *above = l->scope;
	auto_strv struct strv paths = STRV_INIT, whole = STRV_INIT;
	auto_free char *directory = NULL;
	json_auto_t *file = NULL;
	struct scope scope = { .above = above };
	int e;

	take_texts(path, &paths);
	for (size_t i = 0; i < paths.n; i++) {
		char *one = find(l, above->directory, paths.v[i]);

		if (!one)
			return -EINVAL;
		strv_take(&whole, one);
	}
	if (whole.n == 0)
		return mlr_fail(l->err, EINVAL, "include: the key 'path' is missing");
	if (l->depth == DEPTH_MAX)
		return mlr_fail(
			l->err, EINVAL, "'%s' includes itself, or too many others", whole.v[0]);
	directory = said ? compose_below(above->directory, said) : compose_below(whole.v[0], "..");
	scope.directory = directory;
	e = read_variables(l, json_object_get(v, "env_file"), &scope);
	l->scope = &scope;
	l->first = l->c->files.n;
	l->depth++;
	if (e == 0)
		e = read_set(l, &whole, &file);
	for (size_t i = 0; e == 0 && i < ARRAY_LEN(kinds); i++)
		e = import(l, whole.v[0], file, kinds[i], into);
	l->depth--;
	l->first = l->c->files.n;
	l->scope = above;
	strv_done(&scope.variables);
	return e;
}

static int include_all(struct loader *l, json_t **file)
{
	const json_t *list = json_object_get(*file, "include");
	json_t *item;
	size_t i;

	if (!list)
		return 0;
	item = json_copy(*file);
	json_decref(*file);
	*file = item;
	json_array_foreach((json_t *)list, i, item)
		TRY(include(l, item, *file));
	return json_object_del(*file, "include");
}

/* --- all ------------------------------------------------------------------------------------- */

/* Merge a file, and what it extends and includes, into those before. */
static int add(struct loader *l, const char *name, const json_t *file, json_t **ret)
{
	const struct file f = { file, name, l->scope->directory };
	json_auto_t *whole = NULL, *before = NULL;

	TRY(extend_all(l, &f, &whole));
	TRY(include_all(l, &whole));
	before = *ret;
	*ret = compose_merge(before, whole, COMPOSE_FILE);
	return 0;
}

static int read_set(struct loader *l, const struct strv *paths, json_t **ret)
{
	for (size_t i = 0; i < paths->n; i++) {
		json_t *file = NULL;

		TRY(read_file(l, paths->v[i], &file));
		TRY(add(l, paths->v[i], file, ret));
	}
	return 0;
}

int compose_load(struct compose_reader *c, json_t **ret, struct mlr_error *err)
{
	const struct compose_wish *w = c->wish;
	const struct scope scope = { .directory = w->directory, .look = w->look, .ctx = w->ctx };
	struct loader l = { .c = c, .scope = &scope, .err = err };

	for (size_t i = 0; i < w->n; i++) {
		json_t *file = NULL;

		TRY(parse(&l, w->files[i].name, w->files[i].text, w->files[i].size, &file));
		TRY(add(&l, w->files[i].name, file, ret));
	}
	return 0;
}
