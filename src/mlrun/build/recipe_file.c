/* Finds and reads a context's recipe and its ignore file. */
#include "build/context.h"

/* Read a file to its end, or up to more than a recipe may have. */
static int read_all(int fd, const char *name, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *text = xmalloc(RECIPE_MAX + 2);
	ssize_t n = file_read_full(fd, text, RECIPE_MAX + 1);

	if (n < 0)
		return mlr_result(err, (int)n, "read '%s'", name);
	text[n] = '\0';
	*len = (size_t)n;
	*ret = take_ptr(&text);
	return 0;
}

/* Open a regular file of the context, without waiting; no link leads out of one that was fetched.
 */
static int open_in(const struct build_context *c, const char *name)
{
	auto_close int fd = c->scratch
		? file_open_in_root(c->fd, name, O_RDONLY | O_NONBLOCK, 0)
		: openat(c->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return c->scratch ? fd : -errno;
	return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EINVAL : take_fd(&fd);
}

/* -f's file: the caller's, unless the context was fetched. */
static int open_given(const struct build_context *c, const char *file, int flags)
{
	int fd;

	if (c->scratch)
		return open_in(c, file);
	fd = open(file, O_RDONLY | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* The context's definition file, if there is one only: its name, to free(). */
static char *find_definition(const struct build_context *c)
{
	auto_strv struct strv names = STRV_INIT;
	char *found = NULL;

	file_list(c->fd, ".", 0, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_close int fd = definition_is_name(names.v[i]) ? open_in(c, names.v[i]) : -1;

		if (fd < 0)
			continue;
		if (found) {
			free(found);
			return NULL;
		}
		found = xstrdup(names.v[i]);
	}
	return found;
}

static int read_default(const struct build_context *c, const char *context, char **name, char **ret,
	size_t *len, struct mlr_error *err)
{
	static const char *const names[] = { "Dockerfile", "Containerfile" };

	for (size_t i = 0; i <= ARRAY_LEN(names); i++) {
		auto_free char *file =
			i < ARRAY_LEN(names) ? xstrdup(names[i]) : find_definition(c);
		auto_close int fd = file ? open_in(c, file) : -ENOENT;

		if (fd == -ENOENT)
			continue;
		*name = c->scratch || strcmp(context, ".") == 0 ? take_ptr(&file)
								: xasprintf("%s/%s", context, file);
		return fd < 0 ? mlr_result(err, fd, "open '%s'", *name)
			      : read_all(fd, *name, ret, len, err);
	}
	mlr_fail(err, ENOENT, "there is no Dockerfile in '%s'", context);
	return mlr_hint(err, "-f FILE names the recipe, if it is elsewhere");
}

static int read_given(const struct build_context *c, const char *context, const char *file,
	char **ret, size_t *len, struct mlr_error *err)
{
	auto_close int fd = -1;

	if (strcmp(file, "-") == 0 && strcmp(context, "-") == 0)
		return mlr_fail(
			err, EINVAL, "standard input is the context already: -f - is too much");
	if (c->recipe)
		return mlr_fail(
			err, EINVAL, "context '%s' is a recipe itself: -f is too much", context);
	if (strcmp(file, "-") == 0)
		return read_all(STDIN_FILENO, "standard input", ret, len, err);
	fd = open_given(c, file, 0);
	return fd < 0 ? mlr_result(err, fd, "open '%s'", file) : read_all(fd, file, ret, len, err);
}

int build_recipe_read(const struct build_context *c, const char *text, const char *file,
	const struct definition_options *o, struct recipe *ret, struct mlr_error *err)
{
	auto_free char *name = NULL, *bytes = NULL;
	const char *is = file ? file : text;
	size_t len = c->recipe_len;
	int r = 0;

	if (file)
		r = read_given(c, text, file, &bytes, &len, err);
	else if (!c->recipe)
		r = read_default(c, text, &name, &bytes, &len, err);
	TRY(r);
	if (!name)
		name = xstrdup(strcmp(is, "-") == 0 ? "standard input" : is);
	return definition_is(name, bytes ? bytes : c->recipe)
		? definition_parse(name, bytes ? bytes : c->recipe, len, o, ret, err)
		: recipe_parse(name, bytes ? bytes : c->recipe, len, ret, err);
}

int build_ignore_read(
	const struct build_context *c, const char *file, char **ret, struct mlr_error *err)
{
	auto_free char *own = file ? xasprintf("%s.dockerignore", file) : NULL;
	const char *const names[] = { own, ".dockerignore", ".containerignore" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_close int fd = !names[i] ? -ENOENT
			: i == 0              ? open_given(c, names[i], O_NONBLOCK)
					      : open_in(c, names[i]);
		struct stat st;
		size_t len = 0;
		int r;

		if (fd == -ENOENT || fd == -ENOTDIR)
			continue;
		if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
			return mlr_fail(err, EINVAL, "'%s' is not a regular file", names[i]);
		if (fd < 0)
			return mlr_result(err, fd, "open '%s'", names[i]);
		r = read_all(fd, names[i], ret, &len, err);
		return r == 0 && len > RECIPE_MAX
			? mlr_fail(err, EFBIG, "'%s' is too large", names[i])
			: r;
	}
	return 0;
}
