/* The CDI files of a machine. A device in /var/run/cdi hides one of the same name in /etc/cdi. */
#ifndef MLR_CDI_DIR_H
#define MLR_CDI_DIR_H

#include "cdi/spec.h"

/* A file that could not be read. */
struct cdi_problem {
	char *text; /* "'/etc/cdi/x.yaml': line 3: …" */
	char *kind; /* a guess from its text; NULL: unknown */
};

struct cdi_dir {
	struct cdi_spec *v;
	size_t n;
	struct cdi_problem *problems;
	size_t n_problems;
};

#define GPU_CDI_DIR_INIT         \
	{                        \
		NULL, 0, NULL, 0 \
	}

void cdi_dir_done(struct cdi_dir *d);

/* Read all files below gpu_root(), at most 1000 in a directory. A missing directory is an empty
 * one. An invalid file becomes a problem; the others are read. */
void cdi_dir_read(struct cdi_dir *ret);

/*
 * Find the device "vendor/class=device" and its file.
 *
 * Returns 0; -ENODEV when no file has it, naming devices that exist; -EEXIST when two files of one
 * directory have it, naming both; -EPROTO when it may be in an invalid file.
 */
int cdi_dir_find(const struct cdi_dir *d, const char *name, const struct cdi_spec **spec,
	const struct cdi_device **device, struct mlr_error *err);

/* List all names that can be found, sorted. twice, which may be NULL, gets the ambiguous ones. */
void cdi_dir_names(const struct cdi_dir *d, struct strv *ret, struct strv *twice);

#endif
