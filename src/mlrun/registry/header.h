/*
 * What a response's header lines tell an exchange. For http.c.
 */
#ifndef MLR_REGISTRY_HEADER_H
#define MLR_REGISTRY_HEADER_H

#include "registry/http.h"

#include <stddef.h>

/* Take one line as it came, "\r\n" included. Returns 1 for a status line: then x is as after
 * header_forget(), but for its status. */
int header_take(struct http_exchange *x, const char *line, size_t len);

/* Forget the response that x holds. */
void header_forget(struct http_exchange *x);

#endif
