/*
 * What a start is about to read, decompressed while the container is still being made. For
 * mlrun-squashfuse's own files.
 */
#ifndef MLR_RUNTIME_SQUASHFUSE_WARM_H
#define MLR_RUNTIME_SQUASHFUSE_WARM_H

#include "runtime/squashfuse_blocks.h"

/*
 * Have a command's file at hand, its interpreter (of a script) or loader (of an ELF file) and the C
 * library, and what mlrun itself looks at. A guess that is wrong costs some time of an idle CPU.
 *
 *   command  as execvp(3) takes it
 *   path     PATH to look it up in
 */
void warm_command(struct image *im, struct blocks *b, const char *command, const char *path);

/* Where a path leads in the image, links followed inside it; *dir is its directory's number.
 * -ENOENT, -ELOOP, -ENAMETOOLONG, -EIO. */
int warm_resolve(struct image *im, const char *path, struct stat *ret, uint64_t *dir);

#endif
