/*
 * What a start is about to read, decompressed while the container is still being made. For
 * mlrun-squashfuse's own files.
 */
#ifndef MLR_SQUASHFS_SERVER_WARM_H
#define MLR_SQUASHFS_SERVER_WARM_H

#include "squashfs/server_ops.h"

/*
 * Have a command's file at hand, its interpreter (of a script) or loader (of an ELF file) and the C
 * library, and what mlrun itself looks at; once the kernel has looked one up, put it into its
 * cache. A guess that is wrong costs some time of an idle CPU. Returns when all is done, or half a
 * second later.
 *
 *   command  as execvp(3) takes it
 *   path     PATH to look it up in
 */
void warm_command(const struct ops *o, const char *command, const char *path);

/* The kernel has looked up an inode. */
void warm_looked_up(uint64_t ino);

#endif
