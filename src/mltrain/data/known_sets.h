/*
 * Lists the data sets that `mltrain fetch` knows by name: the places and digests of their files.
 * The digests are those that TensorFlow Datasets, torchvision's prototypes and torchvision-ruby
 * publish.
 */
#ifndef MLT_DATA_KNOWN_SETS_H
#define MLT_DATA_KNOWN_SETS_H

#include <stddef.h>

#define KNOWN_FILES_MAX   4
#define KNOWN_MIRRORS_MAX 3

struct known_set {
	const char *name;
	const char
		*mirrors[KNOWN_MIRRORS_MAX]; /* directories, tried in order; NULL after the last */
	struct known_file {
		const char *name, *sha256;
	} files[KNOWN_FILES_MAX];            /* a NULL name after the last */
	const struct archive_files *archive; /* the contents of its one file (unpack.h), or NULL */
};

/* Find a set by name, or NULL. */
const struct known_set *known_set_find(const char *name);

/* Return "mnist, fashion-mnist, …". */
const char *known_set_names(void);

#endif
