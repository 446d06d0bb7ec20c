/* Checks of a request's head that libmicrohttpd leaves out: where two readers of HTTP could
 * disagree, a request is refused (RFC 9112, sections 3.2, 6.1 and 6.3). */
#ifndef MLT_SERVE_STRICT_H
#define MLT_SERVE_STRICT_H

#include "base/base.h"

struct MHD_Connection;

/*
 * Check the target, raw as it stands in the request line: no NUL may be in it, "%00" either.
 * Returns 0 or -EPROTO.
 */
int serve_strict_target(const char *uri, struct mlr_error *err);

/* The path of a target without "http://HOST" before it. */
const char *serve_strict_path(const char *target);

/*
 * Check the headers. Returns 0; -EPROTO for two Hosts or none in HTTP/1.1, a Host that is no
 * HOST[:PORT], two lengths of the body; -ENOTSUP for a transfer coding but "chunked"; -EMEDIUMTYPE
 * for a body that is compressed.
 */
int serve_strict_headers(struct MHD_Connection *mhd, const char *version, struct mlr_error *err);

#endif
