/* Fetches files of URLs: ADD's, and contexts. For this room's other files. */
#pragma once

#include "base/base.h"

/* Is it a URL of http or https? */
int build_is_url(const char *s);

/*
 * Fetch a URL into a temporary file.
 *
 *   checksum  "sha256:<hex>" that it must have, or NULL
 *   cancel    as in build_options
 *   name      the last component of its path, perhaps "", to free()
 *
 * Returns 0 and the file, the caller's; -EBADMSG for another checksum; registry_download()'s
 * errors.
 */
int build_fetch(const char *url, const char *checksum, const int *cancel, int *fd, char **name,
	struct mlr_error *err);
