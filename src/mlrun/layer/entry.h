/*
 * Members of an archive that is being made of files.
 */
#ifndef MLR_LAYER_ENTRY_H
#define MLR_LAYER_ENTRY_H

#include <archive_entry.h>

/* Bytes: more than an xattr's value has. */
#define LAYER_ENTRY_BUFFER (256u << 10)

/* Add the user.* xattrs of an open file or directory but for overlayfs's own marks. buf is room for
 * LAYER_ENTRY_BUFFER bytes. */
void layer_entry_xattrs(struct archive_entry *e, int fd, char *buf);

/* After archive_entry_copy_stat() and archive_entry_linkify(): forget what another copy of the same
 * files would have otherwise, which libarchive writes beside xattrs and the like. */
void layer_entry_settle(struct archive_entry *e);

#endif
