/* The CDI files of a machine: /etc/cdi, then /var/run/cdi, whose devices are before those of the
 * same name. */
#ifndef MLR_CDI_DIR_H
#define MLR_CDI_DIR_H

#include "cdi/spec.h"

/* A file that could not be read. */
struct cdi_problem {
	char *text; /* "'/etc/cdi/x.yaml': line 3: …" */
	char *kind; /* what its text says of its kind, found as well as it can be; NULL: nothing */
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

/* Read all of them, below gpu_root(), in one directory the first 1000. Directories that are not
 * there are empty; a file that is wrong is a problem and stops no other. */
void cdi_dir_read(struct cdi_dir *ret);

/*
 * Find a device.
 *
 *   name  "vendor/class=device"
 *
 * Returns 0 and both; -ENODEV when no file has it, naming those that do have some; -EEXIST when two
 * files of one directory have it, naming both; -EPROTO when it may be in a file that is wrong.
 */
int cdi_dir_find(const struct cdi_dir *d, const char *name, const struct cdi_spec **spec,
	const struct cdi_device **device, struct mlr_error *err);

/* All names that can be found, sorted; in twice, which may be NULL, those that two files of one
 * directory have. */
void cdi_dir_names(const struct cdi_dir *d, struct strv *ret, struct strv *twice);

#endif
