/*
 * Decompresses what a start will read, while the container is still being made. For
 * mlrun-squashfuse's own files.
 */
#ifndef MLR_SQUASHFS_SERVER_WARM_H
#define MLR_SQUASHFS_SERVER_WARM_H

#include "squashfs/server_ops.h"

/*
 * Prefetch a command's file, its interpreter (of a script) or loader (of an ELF file), the C
 * library, and what mlrun itself looks at. Once the kernel has looked up such a file, put it into
 * the kernel's cache. A wrong guess costs some time of an idle CPU. Returns when all is done, or
 * after half a second.
 *
 *   command  as execvp(3) takes it
 *   path     PATH to look it up in
 */
void warm_command(const struct ops *o, const char *command, const char *path);

/* To be called when the kernel has looked up an inode. */
void warm_looked_up(uint64_t ino);

#endif
