/* Makes JSON strings for output. */
#ifndef MLR_BASE_JSON_H
#define MLR_BASE_JSON_H

#include "base/strv.h"

#include <jansson.h>

/* A JSON string, or null for NULL. JSON cannot hold text that is not UTF-8, such as some file
 * names; its bytes are taken as Latin-1. Returns NULL only without memory. */
json_t *mlr_json_text(const char *s);

/* An array of such strings. */
json_t *mlr_json_texts(const struct strv *l);

#endif
