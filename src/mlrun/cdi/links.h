/*
 * Adds the links that hooks of CDI files request, and the libraries in mounted directories, to a
 * plan.
 */
#ifndef MLR_CDI_LINKS_H
#define MLR_CDI_LINKS_H

#include "cdi/edits.h"

/*
 * Add a symbolic link to text at the container's path where.
 *
 * In a directory bound from the host nothing is created; a remark names a link that is missing.
 * Returns 0, or the failure of plan_mount_add().
 */
int cdi_link_add(struct cdi_job *job, const char *text, const char *where);

/* Add links by SONAME to the libraries mounted directly in folder, a clean path. */
int cdi_soname_links_add(struct cdi_job *job, const char *folder);

/* Add the libraries in a mounted folder, or mounted in it, and the links to them, to the linker's
 * cache. */
void cdi_libraries_add(struct cdi_job *job, const char *folder);

#endif
