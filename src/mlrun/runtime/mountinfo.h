/* proc_pid_mountinfo(5): the mounts that a process sees, one a line. */
#pragma once

#include "base/base.h"

struct mountinfo {
	unsigned major, minor;
	char *target, *source;
	char *options; /* the mount's, not the file system's */
};

/* Read such a file, to free(); file_read()'s result. */
int mountinfo_read(int dirfd, const char *path, char **ret);

/* Take the next mount off a text, which changes and holds its strings. Returns 0 at the end. */
int mountinfo_next(char **text, struct mountinfo *ret);
