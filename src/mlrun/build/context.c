#include "build/context.h"

#include "build/url.h"
#include "layer/archive.h"
#include "layer/extract.h"
#include "recipe/recipe.h"
#include "store/trash.h"

#define CHUNK (256u << 10)

int build_context_is_directory(const char *text)
{
	struct stat st;

	return strcmp(text, "-") != 0 && !git_is_repository(text) && !build_is_url(text) &&
		(stat(text, &st) < 0 || S_ISDIR(st.st_mode));
}

void build_context_close(struct store *st, struct build_context *c)
{
	fd_close(&c->fd);
	store_scratch_remove(st, c->scratch);
	free(c->scratch);
	free(c->recipe);
	*c = (struct build_context)BUILD_CONTEXT_INIT;
}

/* Standard input as a file in which one can go back. */
static int read_stdin(const int *cancel, struct mlr_error *err)
{
	auto_free char *buf = xmalloc(CHUNK);
	auto_close int fd = temp_open(-1, err);
	ssize_t n = 1;
	int r = 0;

	if (isatty(STDIN_FILENO)) {
		mlr_fail(err, EINVAL, "standard input is a terminal");
		return mlr_hint(err, "redirect a recipe or a tar to it; '.' is this directory");
	}
	while (fd >= 0 && r == 0 && n > 0) {
		n = file_read_full(STDIN_FILENO, buf, CHUNK);
		if (n < 0)
			return mlr_result(err, (int)n, "read standard input");
		TRY(mlr_result(err, file_write_all(fd, buf, (size_t)n), "write a temporary file"));
		if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			return mlr_fail(err, ECANCELED, "interrupted");
	}
	return fd < 0 ? fd : take_fd(&fd);
}

static int open_file(const char *text, const int *cancel, struct mlr_error *err)
{
	auto_free char *name = NULL;
	int fd, r;

	if (strcmp(text, "-") == 0)
		return read_stdin(cancel, err);
	if (build_is_url(text)) {
		r = build_fetch(text, NULL, cancel, &fd, &name, err);
		return r < 0 ? r : fd;
	}
	fd = open(text, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "open '%s'", text) : fd;
}

/* Take a file that is no tar as a recipe, if it is a text. */
static int read_recipe(int fd, const char *text, struct build_context *ret, struct mlr_error *err)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return mlr_fail_errno(err, "read '%s'", text);
	if ((size_t)st.st_size > RECIPE_MAX)
		return mlr_fail(err, EPROTO, "it is neither a tar nor a recipe");
	ret->recipe = xcalloc(1, (size_t)st.st_size + 1);
	n = file_read_full(fd, ret->recipe, (size_t)st.st_size);
	if (n < 0)
		return mlr_result(err, (int)n, "read '%s'", text);
	ret->recipe_len = (size_t)n;
	return memchr(ret->recipe, '\0', (size_t)n)
		? mlr_fail(err, EPROTO, "it is neither a tar nor a recipe")
		: 0;
}

static int unpack(
	const char *text, const int *cancel, struct build_context *ret, struct mlr_error *err)
{
	auto_close int fd = open_file(text, cancel, err);
	auto_free char *real = NULL;

	if (fd < 0)
		return fd;
	if (!layer_archive_is_tar(fd))
		return read_recipe(fd, text, ret, err);
	real = realpath(ret->scratch, NULL);
	return real ? layer_extract(fd, real, cancel, err)
		    : mlr_fail_errno(err, "find '%s'", ret->scratch);
}

/* As with BuildKit, the history is no part of it: it would change with every clone. */
static int fetch_repository(const char *text, const struct git_access *how,
	struct build_context *ret, char **dir, struct mlr_error *err)
{
	auto_free char *git = xasprintf("%s/.git", ret->scratch);
	int r = git_fetch(text, ret->scratch, how, dir, err);

	return r < 0 ? r : file_remove_tree(AT_FDCWD, git, err);
}

int build_context_open(struct store *st, const char *text, const struct git_access *how,
	struct build_context *ret, struct mlr_error *err)
{
	auto_free char *dir = NULL;
	int r = 0;

	if (!build_context_is_directory(text)) {
		r = store_scratch_make(st, "context", &ret->scratch, err);
		if (r == 0)
			r = git_is_repository(text) ? fetch_repository(text, how, ret, &dir, err)
						    : unpack(text, how->cancel, ret, err);
		if (r == 0 && !dir)
			dir = xstrdup(ret->scratch);
	}
	if (r < 0)
		return mlr_wrap(err, "context '%s'", text);
	ret->fd = open(dir ? dir : text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret->fd < 0 ? mlr_fail_errno(err, "open the context '%s'", text) : 0;
}
