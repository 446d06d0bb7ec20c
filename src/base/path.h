/*
 * Paths as text.
 */
#ifndef MLR_BASE_PATH_H
#define MLR_BASE_PATH_H

/* An absolute path without empty, "." and ".." components and trailing slashes: "/a//b/./../c/" is
 * "/a/c". Links are not looked at. NULL for a relative path; else to free(). */
char *path_clean(const char *path);

/* Is path prefix itself or below it? Both clean; whole components are compared: /data is not above
 * /database. */
int path_below(const char *path, const char *prefix);

/* The last component, without what is before it: "c" of "/a/b/c" and of "c". Points into path. */
const char *path_base(const char *path);

#endif
