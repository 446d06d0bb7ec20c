/* /etc/passwd and /etc/group with an entry for the caller. */
#pragma once

#include "plan/plan.h"

/*
 * Put an entry for the caller first and drop the image's entries with the same id or name. If the
 * inner uid is 0, the image's own entry for root stays. Works on text alone.
 *
 *   old   the image's file, or NULL
 *
 * Returns the new text, to free(), or NULL if the old text needs no change.
 */
char *accounts_passwd(const char *old, const struct plan_identity *id);
char *accounts_group(const char *old, const struct plan_identity *id);

/* Both files. */
struct accounts_file {
	const char *path;
	char *(*make)(const char *old, const struct plan_identity *id);
};

#define ACCOUNTS_FILES 2
extern const struct accounts_file accounts_files[ACCOUNTS_FILES];

/* Read an image's file in an open directory. Returns its text, to free(), or NULL if the file
 * cannot be read. */
char *accounts_read(int dir, const char *name);

/* Fail with -EISDIR: the image's file is a directory. */
int accounts_is_directory(const char *path, struct mlr_error *err);

/* Put both files into the container's root. */
int accounts_write(int root, const struct plan_identity *id, struct mlr_error *err);
