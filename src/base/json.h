/* Text in JSON that is printed. */
#ifndef MLR_BASE_JSON_H
#define MLR_BASE_JSON_H

#include "base/strv.h"

#include <jansson.h>

/* A string, null of NULL. Of text that is not UTF-8, which JSON cannot hold (names of files may be
 * so), each byte is taken for a character of Latin-1. NULL only for lack of memory. */
json_t *mlr_json_text(const char *s);

/* An array of such strings. */
json_t *mlr_json_texts(const struct strv *l);

#endif
