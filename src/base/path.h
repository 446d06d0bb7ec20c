/* Works on paths as text. */
#pragma once

/* An absolute path without empty, "." and ".." components and trailing slashes: "/a//b/./../c/" is
 * "/a/c". Does not resolve links. NULL for a relative path; else to free(). */
char *path_clean(const char *path);

/* Is path equal to prefix or below it? Both are clean. Compares whole components: /data is not
 * above /database. */
int path_below(const char *path, const char *prefix);

/* Does a name or path end so, with something before it? */
int path_ends(const char *path, const char *end);

/* The last component: "c" of "/a/b/c" and of "c". Points into path. */
const char *path_base(const char *path);

/* What is before it, to free(); "." without a slash. */
char *path_dir(const char *path);
