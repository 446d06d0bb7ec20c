/* Clones repositories with the host's git(1): ADD's, and contexts. For this room's other files. */
#ifndef MLR_BUILD_GIT_H
#define MLR_BUILD_GIT_H

#include "base/error.h"

/*
 * Is it a repository, as BuildKit writes them: "git@HOST:PATH", "git://...", "ssh://...",
 * "github.com/...", or an http or https URL whose path ends with ".git"? "#REF", "#REF:DIR" or
 * "#:DIR" may follow.
 */
int git_is_repository(const char *s);

/*
 * Fetch what REF names, the repository's HEAD by default, with submodules, and its history only if
 * the server gives it no other way.
 *
 *   into    an empty directory
 *   cancel  as in build_options
 *   ret   the absolute path of DIR in it, or into itself; to free()
 *
 * Returns 0; -ENOENT without git or DIR; -EIO if git fails: its message is on standard error.
 */
int git_fetch(
	const char *source, const char *into, const int *cancel, char **ret, struct mlr_error *err);

#endif
