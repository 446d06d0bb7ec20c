/*
 * Requests to mlrun-squashfuse --look and its answers: one datagram each, on a socket pair. Answers
 * to the first three kinds carry a descriptor.
 */
#pragma once

#include "base/base.h"

#define LOOK_FILE_MAX (128u << 20) /* bytes of a file; the largest libraries are smaller */
#ifndef LOOK_WHOLE_MAX
#define LOOK_WHOLE_MAX (512u << 10) /* bytes: LOOK_ABOUT copies smaller ELF files whole */
#endif
#define LOOK_NAMES_MAX (8u << 20) /* bytes of the names in a directory */

enum look_what {
	LOOK_FILE,   /* a regular file's contents */
	LOOK_ABOUT,  /* the same, but of a large ELF file only its headers, dynamic section, tables
		      * of names and versions, and notes; the rest is zeros */
	LOOK_NAMES,  /* the names in a directory, each with a NUL */
	LOOK_PLACE,  /* what is at a path, and its path without links */
	LOOK_ITSELF, /* the same, but for a link at the end itself */
};

/* Sent up to the NUL of its path. */
struct look_request {
	uint32_t what; /* enum look_what */
	char path[PATH_MAX];
};

struct look_answer {
	int32_t code;          /* 0 or a negative errno */
	uint32_t mode;         /* st_mode */
	uint64_t entries;      /* LOOK_PLACE, LOOK_ITSELF: names in a directory */
	char path[PATH_MAX];   /* set with -ENOENT as well, or empty */
	char target[PATH_MAX]; /* LOOK_ITSELF: a link's target */
};
