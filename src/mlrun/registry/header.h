/* Parses a response's header lines for an exchange. For http.c. */
#ifndef MLR_REGISTRY_HEADER_H
#define MLR_REGISTRY_HEADER_H

#include "registry/http.h"

#include <stddef.h>

/* Parse one line as received, with "\r\n". Returns 1 for a status line; it resets x as
 * header_forget() does and sets its status. */
int header_take(struct http_exchange *x, const char *line, size_t len);

/* Reset what x holds of a response. */
void header_forget(struct http_exchange *x);

#endif
