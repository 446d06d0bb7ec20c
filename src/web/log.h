/* Reads what a command has printed, from the end or as it grows. */
#pragma once

#include "web/run.h"

#define LOG_PART ((size_t)64 << 10) /* bytes at once */

struct log_part {
	off_t from, to, size; /* of the file */
	char *text;           /* UTF-8, to free() */
};

/*
 * Read bytes before an offset, from the beginning of a line on if one begins there.
 *
 *   to    -1: the file's end
 *   size  at most
 *
 * Returns 0 or -errno.
 */
int log_before(int fd, off_t to, size_t size, struct log_part *ret);

/* Read what follows an offset, at most LOG_PART; whole characters only, unless it is the end. */
int log_behind(int fd, off_t from, struct log_part *ret);
