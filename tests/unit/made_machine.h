/*
 * A machine made of files: what a test puts below `root`, which is given to what looks at a host.
 */
#ifndef MLR_TESTS_MADE_MACHINE_H
#define MLR_TESTS_MADE_MACHINE_H

#include <limits.h>
#include <sys/types.h>

/* From make_root() to drop_root(), which are cmocka's fixtures. */
extern char root[PATH_MAX];

int make_root(void **state);
int drop_root(void **state);

/* Where a path of the machine's lies, the directories that lead there made; to free(). */
char *place(const char *path);

/* A file of that text, its mode 0644 or another. */
void put(const char *path, const char *text);
void put_mode(const char *path, const char *text, mode_t mode);
void put_link(const char *path, const char *to);
/* Take away a file, or a directory with all that is in it. */
void drop(const char *path);

#endif
