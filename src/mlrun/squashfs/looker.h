/*
 * Looks into a squashfs file without mounting it, by asking mlrun-squashfuse, which cannot open any
 * file itself. One process answers all requests about a file. It is not our child, and ends with
 * looker_done(), with this process, or when this process executes another program.
 *
 * Not thread-safe.
 */
#pragma once

#include "squashfs/look.h"

/*
 * A prefetch hint: looker_ask() may be called with these arguments, so look already. A file can
 * have 8 hints at most; the rest are ignored. Errors are reported by looker_ask().
 */
void looker_expect(const char *file, const char *part, enum look_what what, const char *path);

/*
 * Look up a path in a squashfs file.
 *
 *   file  the squashfs file
 *   part  "OFFSET+BYTES" of it that are the image; "" for all of it
 *   path  absolute
 *   ret   the answer
 *   fd    LOOK_FILE, LOOK_ABOUT, LOOK_NAMES: a sealed file in memory, the caller's to close; else
 *         -1. May be NULL for others
 *
 * Returns 0; -ENOENT, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOTDIR for the path, with *ret set as well;
 * -EPROTO if the file is not a squashfs image; -ENOTSUP if mlrun was built without libsquashfuse;
 * -EIO if the process does not answer, and from then on for this file; other errors of starting or
 * asking it.
 */
int looker_ask(const char *file, const char *part, enum look_what what, const char *path,
	struct look_answer *ret, int *fd);

/* End the process: no more requests will follow. */
void looker_done(void);
