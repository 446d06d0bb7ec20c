#include "build/git.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/strv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Where a repository is, and what of it. */
struct repository {
	char *url, *ref, *dir; /* ref and dir may be NULL */
};

static void repository_done(struct repository *g)
{
	free(g->url);
	free(g->ref);
	free(g->dir);
}

int git_is_repository(const char *s)
{
	size_t len = strcspn(s, "#?");

	if (strncmp(s, "git@", 4) == 0 || strncmp(s, "git://", 6) == 0 ||
		strncmp(s, "ssh://", 6) == 0 || strncmp(s, "github.com/", 11) == 0)
		return 1;
	return (strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0) && len > 4 &&
		strncmp(s + len - 4, ".git", 4) == 0;
}

static int split(const char *source, struct repository *ret, struct mlr_error *err)
{
	size_t len = strcspn(source, "#");
	const char *ref = source[len] ? source + len + 1 : "";
	size_t ref_len = strcspn(ref, ":");
	const char *https = strncmp(source, "github.com/", 11) == 0 ? "https://" : "";

	if (*ref == '-')
		return mlr_fail(err, EINVAL, "'%s' names no branch, tag or commit", ref);
	ret->url = xasprintf("%s%.*s", https, (int)len, source);
	ret->ref = ref_len > 0 ? xstrndup(ref, ref_len) : NULL;
	ret->dir = ref[ref_len] && ref[ref_len + 1] ? xstrdup(ref + ref_len + 1) : NULL;
	return 0;
}

#define WAIT_MS 50

static int is_cancelled(const int *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* Wait for git, or end it. */
static int wait_for(pid_t pid, const int *cancel)
{
	const struct timespec nap = { 0, WAIT_MS * 1000000 };
	int status, was_told = 0;
	pid_t got;

	while ((got = waitpid(pid, &status, WNOHANG)) != pid) {
		if (got < 0 && errno != EINTR)
			return -errno;
		if (is_cancelled(cancel) && !was_told++)
			kill(pid, SIGTERM);
		nanosleep(&nap, NULL);
	}
	if (is_cancelled(cancel))
		return -ECANCELED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run git in a directory; its output and errors go to standard error, or with quiet nowhere. It
 * asks nothing. The words end with NULL. Returns its status, or -errno. */
static int git(const char *dir, const int *cancel, int quiet, const char *const *words)
{
	const char *argv[24] = { "git", "-c", "protocol.file.allow=never", "-C", dir };
	auto_strv struct strv env = STRV_INIT;
	posix_spawn_file_actions_t files;
	size_t n = 5;
	pid_t pid;
	int r;

	if (is_cancelled(cancel))
		return -ECANCELED;
	while ((argv[n++] = *words++))
		;
	strv_add(&env, "GIT_TERMINAL_PROMPT=0");
	for (char **e = environ; *e; e++) /* a repository of the caller's is none of ours */
		if (strncmp(*e, "GIT_DIR=", 8) != 0 && strncmp(*e, "GIT_WORK_TREE=", 14) != 0 &&
			strncmp(*e, "GIT_INDEX_FILE=", 15) != 0 &&
			strncmp(*e, "GIT_TERMINAL_PROMPT=", 20) != 0)
			strv_add(&env, *e);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	if (quiet) {
		posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
		posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	}
	r = posix_spawnp(&pid, "git", &files, NULL, (char *const *)argv, strv_argv(&env));
	posix_spawn_file_actions_destroy(&files);
	return r ? -r : wait_for(pid, cancel);
}

#define GIT(dir, quiet, ...) git(dir, cancel, quiet, (const char *const[]){ __VA_ARGS__, NULL })

/* Fetch one commit. Not every server gives one by its digest, or without its history. Returns git's
 * status; -ENXIO if there is no such commit. */
static int fetch(const struct repository *g, const char *dir, const int *cancel)
{
	const char *ref = g->ref ? g->ref : "HEAD";
	auto_free char *remote = xasprintf("origin/%s", ref);

	if (GIT(dir, 1, "fetch", "-q", "--depth=1", "--", g->url, ref) == 0)
		return GIT(dir, 0, "checkout", "-q", "FETCH_HEAD");
	if (GIT(dir, 1, "fetch", "-q", "--", g->url, ref) == 0)
		return GIT(dir, 0, "checkout", "-q", "FETCH_HEAD");
	if (GIT(dir, 0, "fetch", "-q", "--tags", "--", g->url,
		    "+refs/heads/*:refs/remotes/origin/*"))
		return 1;
	if (GIT(dir, 1, "checkout", "-q", "--detach", remote) == 0 ||
		GIT(dir, 1, "checkout", "-q", "--detach", ref) == 0)
		return 0;
	return -ENXIO;
}

static int clone_into(
	const struct repository *g, const char *dir, const int *cancel, struct mlr_error *err)
{
	int r = GIT(dir, 0, "init", "-q");

	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "git is not installed here");
		return mlr_hint(err, "have it installed, or clone '%s' elsewhere", g->url);
	}
	if (r == 0)
		r = GIT(dir, 1, "remote", "add", "origin", g->url); /* submodules may be relative */
	if (r == 0)
		r = fetch(g, dir, cancel);
	if (r == 0)
		r = GIT(dir, 0, "submodule", "--quiet", "update", "--init", "--recursive");
	if (is_cancelled(cancel))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (r == -ENXIO)
		return mlr_fail(err, ENOENT, "it has no branch, tag or commit '%s'",
			g->ref ? g->ref : "HEAD");
	if (r < 0)
		return mlr_fail(err, -r, "start git: %s", strerror(-r));
	return r == 0 ? 0 : mlr_fail(err, EIO, "git cannot fetch '%s'", g->ref ? g->ref : "HEAD");
}

/* The directory in the repository. Its links must not lead out. */
static int find_dir(const struct repository *g, const char *into, char **ret, struct mlr_error *err)
{
	auto_close int top = open(into, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char link[64], path[PATH_MAX];
	ssize_t n;

	fd = top < 0 ? -errno
		     : file_open_in_root(top, g->dir ? g->dir : ".", O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return mlr_fail(
			err, -fd, "its directory '%s': %s", g->dir ? g->dir : ".", strerror(-fd));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return mlr_fail_errno(err, "find its directory '%s'", g->dir ? g->dir : ".");
	*ret = xstrndup(path, (size_t)n);
	return 0;
}

int git_fetch(
	const char *source, const char *into, const int *cancel, char **ret, struct mlr_error *err)
{
	auto_call(repository_done) struct repository g = { 0 };
	int r = split(source, &g, err);

	if (r == 0)
		r = clone_into(&g, into, cancel, err);
	if (r == 0)
		r = find_dir(&g, into, ret, err);
	return r;
}
