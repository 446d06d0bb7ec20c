/* What a layer's tar says of its members, from its record alone (layer/record.h): no file is
 * read. */
#ifndef MLR_LAYER_HEADERS_H
#define MLR_LAYER_HEADERS_H

#include "base/error.h"

#include <archive_entry.h>

/* Takes a member, whiteouts included, in the order of the tar. Returns 0, or -errno with err set to
 * end it. */
typedef int (*layer_header_fn)(void *ctx, struct archive_entry *e, struct mlr_error *err);

/* record_fd  "meta.zst", open for reading. Returns 0, -EPROTO for a record that is none, fn's
 * failure. */
int layer_headers(int record_fd, layer_header_fn fn, void *ctx, struct mlr_error *err);

#endif
