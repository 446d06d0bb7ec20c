#include "build/git.h"

#include "base/config_value.h"
#include "base/spawn.h"
#include "build/secret.h"
#include "registry/authfile.h"
#include "registry/url.h"

#include <spawn.h>

extern char **environ;

/* Where a repository is, and what of it. */
struct repository {
	char *url, *ref, *dir; /* ref and dir may be NULL */
	int keeps_git;         /* .git is wanted, too */
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

/* Read one "KEY=VALUE" of a query. Of a branch and a commit on it the commit counts. */
static int take_field(struct repository *ret, char *field, struct mlr_error *err)
{
	char *value = field + strcspn(field, "="), **to = &ret->ref;

	if (*value)
		*value++ = '\0';
	if (strcmp(field, "keep-git-dir") == 0) {
		ret->keeps_git = !*value || config_truth(value) > 0;
		return 0;
	}
	if (strcmp(field, "subdir") == 0)
		to = &ret->dir;
	else if (strcmp(field, "ref") == 0 || strcmp(field, "branch") == 0 ||
		strcmp(field, "tag") == 0)
		to = ret->ref ? NULL : &ret->ref;
	else if (strcmp(field, "commit") != 0 && strcmp(field, "checksum") != 0)
		return mlr_fail(err, EINVAL,
			"'?%s=': use ref, branch, tag, commit, subdir or keep-git-dir", field);
	if (to && *value)
		set_ptr(to, xstrdup(value));
	return 0;
}

/* URL[?KEY=VALUE[&...]] or URL[#[REF][:DIR]] */
static int split(const char *source, struct repository *ret, struct mlr_error *err)
{
	size_t len = strcspn(source, "?#"), all = strcspn(source, "#");
	const char *ref = source[all] ? source + all + 1 : "";
	size_t ref_len = strcspn(ref, ":");
	const char *https = strncmp(source, "github.com/", 11) == 0 ? "https://" : "";
	auto_free char *query = xstrndup(source + len, all - len);
	char *rest = NULL;
	int r = 0;

	ret->url = xasprintf("%s%.*s", https, (int)len, source);
	ret->ref = ref_len > 0 ? xstrndup(ref, ref_len) : NULL;
	ret->dir = ref[ref_len] && ref[ref_len + 1] ? xstrdup(ref + ref_len + 1) : NULL;
	for (char *f = strtok_r(query, "?&", &rest); f && r == 0; f = strtok_r(NULL, "?&", &rest))
		r = take_field(ret, f, err);
	if (r == 0 && ret->ref && *ret->ref == '-')
		return mlr_fail(err, EINVAL, "'%s' names no branch, tag or commit", ret->ref);
	return r;
}

int git_keeps_history(const char *source)
{
	auto_call(repository_done) struct repository g = { 0 };

	return split(source, &g, NULL) == 0 && g.keeps_git;
}

#define WAIT_MS 50

static int is_cancelled(const int *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* Wait for git, or end it. */
static int wait_for(pid_t pid, const int *cancel)
{
	int status, was_told = 0;
	pid_t got;

	while ((got = waitpid(pid, &status, WNOHANG)) != pid) {
		if (got < 0 && errno != EINTR)
			return -errno;
		if (is_cancelled(cancel) && !was_told++)
			kill(pid, SIGTERM);
		mlr_sleep_ms(WAIT_MS);
	}
	if (is_cancelled(cancel))
		return -ECANCELED;
	return spawn_exit(status);
}

/* --- what git knows of the caller --------------------------------------------------- */

#define SSH_PLAIN                                                                       \
	"ssh -F none -o BatchMode=yes -o GSSAPIAuthentication=no -o IdentitiesOnly=no " \
	"-o IdentityFile=none -o IdentityAgent="

/* A repository of the caller's own around the working directory is not the one that is meant. */
static void add_callers(struct strv *env)
{
	static const char *const names[] = { "GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=" };

	for (char **e = environ; *e; e++) {
		size_t i = 0;

		while (i < ARRAY_LEN(names) && strncmp(*e, names[i], strlen(names[i])) != 0)
			i++;
		if (i == ARRAY_LEN(names))
			strv_add(env, *e);
	}
}

/* How to reach the network, and no more: neither a home with keys and .netrc, nor configuration,
 * nor helpers. */
static void add_isolated(const struct git_access *how, struct strv *env)
{
	static const char *const kept[] = { "PATH", "TMPDIR", "LANG", "LC_ALL", "http_proxy",
		"https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
		"NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE" };
	const char *agent = how->ssh ? strv_env_get(strv_argv(how->ssh), "default") : NULL;
	auto_free char *ssh = xasprintf(SSH_PLAIN "%s", agent ? "SSH_AUTH_SOCK" : "none");

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (getenv(kept[i]))
			strv_env_set(env, kept[i], getenv(kept[i]));
	strv_env_set(env, "HOME", "/dev/null");
	strv_env_set(env, "GIT_CONFIG_GLOBAL", "/dev/null");
	strv_env_set(env, "GIT_CONFIG_NOSYSTEM", "1");
	strv_env_set(env, "GIT_SSH_COMMAND", ssh);
	if (agent)
		strv_env_set(env, "SSH_AUTH_SOCK", agent);
}

/* The token for a repository's host goes there over TLS, by a variable that no other user sees. */
static int add_token(const struct repository *g, const struct git_access *how, struct strv *env,
	struct mlr_error *err)
{
	auto_free char *host = NULL, *id = NULL, *token = NULL, *basic = NULL, *key = NULL,
		       *value = NULL;
	size_t len;
	int r;

	if (strncmp(g->url, "https://", 8) != 0 || strv_env_get(strv_argv(env), "GIT_CONFIG_COUNT"))
		return 0;
	host = url_host(g->url);
	id = xasprintf("GIT_AUTH_TOKEN.%s", host);
	r = secret_read(how->secrets, id, &token, &len, err);
	if (r == 0 && !token)
		r = secret_read(how->secrets, "GIT_AUTH_TOKEN", &token, &len, err);
	if (r < 0 || !token)
		return r;
	token[strcspn(token, "\r\n")] = '\0';
	basic = authfile_encode("x-access-token", token);
	key = xasprintf(
		"http.https://%.*s/.extraheader", (int)strcspn(g->url + 8, "/"), g->url + 8);
	value = xasprintf("Authorization: Basic %s", basic);
	/* Not to where a server sends its callers. */
	strv_env_set(env, "GIT_CONFIG_KEY_1", "http.followRedirects");
	strv_env_set(env, "GIT_CONFIG_VALUE_1", "false");
	strv_env_set(env, "GIT_CONFIG_COUNT", "2");
	strv_env_set(env, "GIT_CONFIG_KEY_0", key);
	strv_env_set(env, "GIT_CONFIG_VALUE_0", value);
	explicit_bzero(token, len);
	return 0;
}

/* --- git ---------------------------------------------------------------------------- */

/* The context of the commands below. */
struct git {
	const char *dir;
	const int *cancel;
	struct strv env;
};

/* Run git in the directory; its output and errors go to standard error, or with quiet nowhere. It
 * asks nothing. The words end with NULL. Returns its status, or -errno. */
static int git(const struct git *c, int quiet, const char *const *words)
{
	const char *argv[24] = { "git", "-c", "protocol.file.allow=never", "-c",
		"protocol.ext.allow=never", "-C", c->dir };
	posix_spawn_file_actions_t files;
	size_t n = 7;
	pid_t pid;
	int r;

	if (is_cancelled(c->cancel))
		return -ECANCELED;
	while ((argv[n++] = *words++))
		;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	if (quiet) {
		posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
		posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	}
	r = posix_spawnp(&pid, "git", &files, NULL, (char *const *)argv, strv_argv(&c->env));
	posix_spawn_file_actions_destroy(&files);
	return r ? -r : wait_for(pid, c->cancel);
}

#define GIT(quiet, ...) git(c, quiet, (const char *const[]){ __VA_ARGS__, NULL })

/* Fetch one commit. Not every server gives one by its digest, or without its history. Returns git's
 * status; -ENXIO if there is no such commit. */
static int fetch(const struct git *c, const struct repository *g)
{
	const char *ref = g->ref ? g->ref : "HEAD";
	auto_free char *remote = xasprintf("origin/%s", ref);

	if (GIT(1, "fetch", "-q", "--depth=1", "--", g->url, ref) == 0)
		return GIT(0, "checkout", "-q", "FETCH_HEAD");
	if (GIT(1, "fetch", "-q", "--", g->url, ref) == 0)
		return GIT(0, "checkout", "-q", "FETCH_HEAD");
	if (GIT(0, "fetch", "-q", "--tags", "--", g->url, "+refs/heads/*:refs/remotes/origin/*"))
		return 1;
	if (GIT(1, "checkout", "-q", "--detach", remote) == 0 ||
		GIT(1, "checkout", "-q", "--detach", ref) == 0)
		return 0;
	return -ENXIO;
}

static int set_env(const struct repository *g, const struct git_access *how, int is_callers,
	struct strv *env, struct mlr_error *err)
{
	strv_done(env);
	if (is_callers)
		add_callers(env);
	else
		add_isolated(how, env);
	strv_env_set(env, "GIT_TERMINAL_PROMPT", "0");
	return add_token(g, how, env, err);
}

static int clone_into(const struct repository *g, const struct git_access *how, struct git *c,
	struct mlr_error *err)
{
	int r;

	TRY(set_env(g, how, how->is_callers, &c->env, err));
	r = GIT(0, "init", "-q");
	if (r == -ENOENT) {
		mlr_fail(err, ENOENT, "git is not installed here");
		return mlr_hint(err, "have it installed, or clone '%s' elsewhere", g->url);
	}
	if (r == 0)
		r = GIT(1, "remote", "add", "origin", g->url); /* submodules may be relative */
	if (r == 0)
		r = fetch(c, g);
	/* Their URLs are the repository's word. */
	if (r == 0 && set_env(g, how, 0, &c->env, err) < 0)
		return -err->code;
	if (r == 0)
		r = GIT(0, "submodule", "--quiet", "update", "--init", "--recursive");
	if (is_cancelled(how->cancel))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (r == -ENXIO)
		return mlr_fail(err, ENOENT, "it has no branch, tag or commit '%s'",
			g->ref ? g->ref : "HEAD");
	if (r < 0)
		return mlr_result(err, r, "start git");
	if (r == 0)
		return 0;
	mlr_fail(err, EIO, "git cannot fetch '%s'", g->ref ? g->ref : "HEAD");
	return mlr_hint(err,
		"a private repository takes --secret id=GIT_AUTH_TOKEN,env=VARIABLE or --ssh default");
}

/* The directory in the repository. Its links must not lead out. */
static int find_dir(const struct repository *g, const char *into, char **ret, struct mlr_error *err)
{
	auto_close int top = open(into, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;

	fd = top < 0 ? -errno
		     : file_open_in_root(top, g->dir ? g->dir : ".", O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return mlr_result(err, fd, "its directory '%s'", g->dir ? g->dir : ".");
	*ret = file_fd_path(fd);
	return *ret ? 0 : mlr_fail_errno(err, "find its directory '%s'", g->dir ? g->dir : ".");
}

int git_fetch(const char *source, const char *into, const struct git_access *how, char **ret,
	struct mlr_error *err)
{
	auto_call(repository_done) struct repository g = { 0 };
	struct git c = { .dir = into, .cancel = how->cancel };
	int r = split(source, &g, err);

	if (r == 0)
		r = clone_into(&g, how, &c, err);
	strv_done(&c.env);
	return r == 0 ? find_dir(&g, into, ret, err) : r;
}
