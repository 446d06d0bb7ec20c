#include "base/follow.h"

#include "base/base.h"

#define LINKS_MAX 40 /* path_resolution(7) */

/* The state of a path's resolution: done has no links, and rest is still to resolve. */
struct walk {
	char *done, *rest;
	int links;
};

static void walk_done(struct walk *w)
{
	free(w->done);
	free(w->rest);
}

static void replace(char **s, char *by)
{
	set_ptr(s, by);
}

static int may_follow(
	const char *dir, const char *path, const struct stat *link, struct mlr_error *err)
{
	struct stat st;

	if (stat(dir, &st) < 0 || (st.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) ||
		link->st_uid == geteuid() || link->st_uid == st.st_uid)
		return 0;
	return mlr_fail(err, EACCES,
		"'%s' is a link that another user has made where everybody may write: it is not followed",
		path);
}

/* Returns 1 if it is a link, whose target is put in front of the rest; 0 if not; -ENOENT. */
static int step_link(struct walk *w, const char *path, struct mlr_error *err)
{
	char text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0)
		return -ENOENT;
	if (!S_ISLNK(st.st_mode))
		return 0;
	TRY(may_follow(*w->done ? w->done : "/", path, &st, err));
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0 || w->links++ == LINKS_MAX)
		return -ENOENT;
	text[n] = '\0';
	replace(&w->rest, xasprintf("%s/%s", text, w->rest));
	if (*text == '/')
		*w->done = '\0';
	return 1;
}

/* Resolve one component. */
static int step(struct walk *w, struct mlr_error *err)
{
	size_t len = strcspn(w->rest, "/");
	auto_free char *name = xstrndup(w->rest, len);
	auto_free char *path = xasprintf("%s/%s", w->done, name);
	char *slash = strrchr(w->done, '/');
	int r;

	replace(&w->rest, xstrdup(w->rest + len + strspn(w->rest + len, "/")));
	if (!*name || strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		if (slash)
			*slash = '\0';
		return 0;
	}
	r = step_link(w, path, err);
	if (r == 0)
		replace(&w->done, take_ptr(&path));
	return r < 0 ? r : 0;
}

int follow_real(const char *path, char **ret, struct mlr_error *err)
{
	auto_free char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	auto_call(walk_done) struct walk w = { .done = xstrdup(""), .rest = NULL };
	int r = *path == '/' || cwd ? 0 : -ENOENT;

	*ret = NULL;
	w.rest = xasprintf("%s/%s", cwd ? cwd : "", path);
	while (r == 0 && *w.rest)
		r = step(&w, err);
	if (r == 0)
		*ret = *w.done ? take_ptr(&w.done) : xstrdup("/");
	return r == -EACCES ? r : 0;
}

int follow_append(const char *path, struct mlr_error *err)
{
	auto_free char *real = NULL;
	struct stat st;
	int fd, is_file, r = follow_real(path, &real, err);

	TRY(r);
	/* The file looked at, except for /dev/stdout and the like. */
	is_file = real && (stat(real, &st) < 0 || S_ISREG(st.st_mode));
	fd = open(
		is_file ? real : path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
	return fd < 0 ? mlr_fail_errno(err, "open '%s'", path) : fd;
}
