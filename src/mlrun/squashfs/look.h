/*
 * What is asked of mlrun-squashfuse --look, and what it answers: a datagram each, on a socket pair.
 * An answer to the first three brings a descriptor.
 */
#ifndef MLR_SQUASHFS_LOOK_H
#define MLR_SQUASHFS_LOOK_H

#include <limits.h>
#include <stdint.h>

#define LOOK_FILE_MAX (128u << 20) /* bytes of a file; the largest libraries have less */
#ifndef LOOK_WHOLE_MAX
#define LOOK_WHOLE_MAX (512u << 10) /* bytes of an ELF file that LOOK_ABOUT has as a whole */
#endif
#define LOOK_NAMES_MAX (8u << 20) /* bytes of the names in a directory */

enum look_what {
	LOOK_FILE,   /* a regular file's bytes */
	LOOK_ABOUT,  /* the same, but of a large ELF file only what describes it: its headers, its
		      * dynamic section, tables of names and versions, notes; the rest is zeros */
	LOOK_NAMES,  /* the names in a directory, each with a NUL */
	LOOK_PLACE,  /* what is there, and where it is without links */
	LOOK_ITSELF, /* the same, of a link at the end itself */
};

/* Sent as far as the NUL of its path. */
struct look_request {
	uint32_t what; /* enum look_what */
	char path[PATH_MAX];
};

struct look_answer {
	int32_t code;          /* 0 or a negative errno */
	uint32_t mode;         /* st_mode */
	uint64_t entries;      /* LOOK_PLACE, LOOK_ITSELF: names in a directory */
	char path[PATH_MAX];   /* filled in with -ENOENT as well, or empty */
	char target[PATH_MAX]; /* LOOK_ITSELF: a link's text */
};

#endif
