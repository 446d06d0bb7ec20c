/*
 * Looking into a squashfs file without mounting it: asked of mlrun-squashfuse, which may open
 * nothing itself. One process answers all questions about a file; it is nobody's child and ends
 * with looker_done(), with this process, or when that becomes another program.
 *
 * Not for several threads at once.
 */
#ifndef MLR_SQUASHFS_LOOKER_H
#define MLR_SQUASHFS_LOOKER_H

#include "squashfs/look.h"

/*
 * Say what will be asked, perhaps: it is looked for meanwhile. At most 8 of these are heeded for a
 * file. What fails is told when it is asked.
 */
void looker_expect(const char *file, enum look_what what, const char *path);

/*
 * Ask.
 *
 *   file  the squashfs file
 *   path  absolute
 *   ret   the answer
 *   fd    LOOK_FILE, LOOK_ABOUT, LOOK_NAMES: a sealed file in memory, the caller's to close; else
 * -1. May be NULL for others
 *
 * Returns 0; -ENOENT, -ELOOP, -ENAMETOOLONG, -EFBIG, -ENOTDIR of the path, with which *ret is
 * filled in as well; -EPROTO for a file that is no squashfs image; -ENOTSUP where mlrun was built
 * without libsquashfuse; -EIO where nobody answers, and from then on for this file; others where it
 * cannot be asked.
 */
int looker_ask(
	const char *file, enum look_what what, const char *path, struct look_answer *ret, int *fd);

/* No more questions are to come. */
void looker_done(void);

#endif
