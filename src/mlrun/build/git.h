/* Clones repositories with the host's git(1): ADD's, and contexts. For this room's other files. */
#pragma once

#include "base/base.h"

/* Whose word a repository is, and what the caller gives for it. */
struct git_access {
	int is_callers;             /* the caller named it: git has the caller's configuration, keys
				     * and helpers, but not for submodules. Else it has none */
	const struct strv *secrets; /* "id=GIT_AUTH_TOKEN,…", or with ".HOST" behind it: a token */
	const struct strv *ssh;     /* "default=SOCKET": an agent */
	const int *cancel;          /* as in build_options */
};

/*
 * Is it a repository, as BuildKit writes them: "git@HOST:PATH", "git://...", "ssh://...",
 * "github.com/...", or an http or https URL whose path ends with ".git"? "#REF", "#REF:DIR" or
 * "#:DIR" may follow, or "?KEY=VALUE&..." of ref, branch, tag, commit, subdir and keep-git-dir.
 */
int git_is_repository(const char *s);

/* Does its "?keep-git-dir=1" ask for .git, too? */
int git_keeps_history(const char *source);

/*
 * Fetch what REF names, the repository's HEAD by default, with submodules, and its history only if
 * the server gives it no other way.
 *
 *   into  an empty directory
 *   ret   the absolute path of DIR in it, or into itself; to free()
 *
 * Returns 0; -ENOENT without git or DIR; -EIO if git fails: its message is on standard error.
 */
int git_fetch(const char *source, const char *into, const struct git_access *how, char **ret,
	struct mlr_error *err);
