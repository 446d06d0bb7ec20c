/*
 * The links that hooks of CDI files ask for, and what the linker finds in the folders of the
 * mounts: libraries, and links to them.
 */
#ifndef MLR_CDI_LINKS_H
#define MLR_CDI_LINKS_H

#include "cdi/edits.h"

/* Is it the name of a library, lib*.so or lib*.so.anything? */
int cdi_is_library(const char *name);

/*
 * A link with that text at a path of the container's.
 *
 * In a directory of the host's nothing is made; it is remarked if the link is not there.
 * Returns 0, or as plan_mount_add() fails.
 */
int cdi_link_add(struct cdi_job *job, const char *text, const char *where);

/* Links by SONAME to the libraries that are mounted in that very folder, a clean path. */
int cdi_soname_links_add(struct cdi_job *job, const char *folder);

/* Let the linker know the libraries that are mounted in a folder, or with it, and links to them. */
void cdi_libraries_add(struct cdi_job *job, const char *folder);

#endif
