/*
 * Lists folders of pictures, one directory for each class:
 *
 *   train/CLASS/IMAGE and test/CLASS/IMAGE (or val/), or CLASS/IMAGE alone
 *
 * Classes are the directories' names, sorted by byte; names that begin with a dot are ignored.
 * Images are files whose names end in .png, .jpg or .jpeg in either case, and links to such files.
 * Links to directories and directories within classes are ignored.
 *
 * Without test/ and val/, a share of each class is for testing: the images whose names have the
 * smallest SHA-256. So the same images are chosen in every run, even after others are added.
 */
#ifndef MLT_DATA_FOLDER_H
#define MLT_DATA_FOLDER_H

#include "data/dataset.h"

#define FOLDER_CLASSES_MAX 65535 /* a label is 16 bits */

struct image_file {
	char *path; /* below the data set's directory, owned */
};

/* files may be NULL. */
void folder_files_free(struct image_file *files, uint32_t count);

/* Counts ignored entries, for one message. */
struct folder_skipped {
	uint64_t count;
	char first[768]; /* path below the directory, for messages */
};

/* Does the directory exist? Returns 1, 0, or -EINVAL for a link to one, which is not followed. */
int folder_has(const char *dir, const char *part, struct mlr_error *err);

/* Does a directory in dir contain an image? */
int folder_looks_like_one(const char *dir);

/*
 * List the classes of a part.
 *
 *   names   [*n], sorted; free() each and the array
 *
 * Returns 0, -ENOENT if there are none, -EFBIG for more than FOLDER_CLASSES_MAX, -EINVAL for a
 * name with control characters, or what opendir(3) gives.
 */
int folder_classes(const char *dir, const char *part, char ***names, int *n,
	struct folder_skipped *skipped, struct mlr_error *err);

/*
 * Append a class's images to set, sorted by name: files and labels.
 *
 * Returns 0, -EFBIG if 32 bits cannot count the images, or an error of opendir(3); 0 also if the
 * class has no directory in this part.
 */
int folder_class(const char *dir, const char *part, const char *name, int label,
	struct image_set *set, struct folder_skipped *skipped, struct mlr_error *err);

#endif
