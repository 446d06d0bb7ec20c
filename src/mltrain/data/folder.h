/*
 * Folders of pictures, a directory a class:
 *
 *   train/CLASS/IMAGE and test/CLASS/IMAGE (or val/), or CLASS/IMAGE alone
 *
 * Classes are the directories' names in the C locale's order; names that begin with a dot are
 * passed over. Images are the files whose names end in .png, .jpg or .jpeg, whatever the case, and
 * links to such files; links to directories are not followed, directories within classes not
 * entered.
 *
 * Without test/ and val/ each class gives a share of its images for testing: those whose names'
 * SHA-256 come first, so that the same ones are kept apart in every run, also when others are
 * added.
 */
#ifndef MLT_DATA_FOLDER_H
#define MLT_DATA_FOLDER_H

#include "data/dataset.h"

#define FOLDER_CLASSES_MAX 65535 /* a label is 16 bits */

struct image_file {
	char *path; /* beneath the data set's directory, owned */
};

/* NULL is fine. */
void folder_files_free(struct image_file *files, uint32_t count);

/* What was passed over, for one line to say. */
struct folder_skipped {
	uint64_t count;
	char first[768]; /* beneath the directory, as it may be shown */
};

/*
 * Is there such a directory? Returns 1, 0, or -EINVAL for a link to one, which is not followed.
 */
int folder_has(const char *dir, const char *part, struct mlr_error *err);

/* Is there an image in a directory of dir? */
int folder_looks_like_one(const char *dir);

/*
 * The classes of a part.
 *
 *   names   [*n], sorted, to free() each and all
 *
 * Returns 0, -ENOENT when there are none, -EFBIG for more than FOLDER_CLASSES_MAX, -EINVAL for a
 * name with control characters, or what opendir(3) gives.
 */
int folder_classes(const char *dir, const char *part, char ***names, int *n,
	struct folder_skipped *skipped, struct mlr_error *err);

/*
 * Put a class's images behind those of set, sorted by name: files and labels.
 *
 * Returns 0, -EFBIG for more images than 32 bits count, or what opendir(3) gives; 0 also when the
 * class has no directory in this part.
 */
int folder_class(const char *dir, const char *part, const char *name, int label,
	struct image_set *set, struct folder_skipped *skipped, struct mlr_error *err);

#endif
