/* Parses a response's headers, for an exchange and for lists of several pages. */
#pragma once

#include "registry/http.h"

/* Parse one line as received, with "\r\n". Returns 1 for a status line; it resets x as
 * header_forget() does and sets its status. */
int header_take(struct http_exchange *x, const char *line, size_t len);

/* Reset what x holds of a response. */
void header_forget(struct http_exchange *x);

/*
 * The query of the Link header's link with the relation "next" (RFC 8288): "last=x&n=100" of
 * "</v2/a/tags/list?last=x&n=100>; rel=\"next\"". The server may not choose the rest of the URL. To
 * free(); NULL if there is none or it is malformed.
 */
char *header_next_query(const char *value);
