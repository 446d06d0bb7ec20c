/* Reads JSON files that people write, and makes JSON strings for output. */
#pragma once

#include "base/strv.h"

#include <jansson.h>

/* Parse a file's text as json_loadb(3) does, behind the byte order mark that editors of Windows put
 * before it (RFC 8259, section 8.1). */
json_t *mlr_json_load(const char *text, size_t len, size_t flags, json_error_t *why);

/* A JSON string, or null for NULL. JSON cannot hold text that is not UTF-8, such as some file
 * names; its bytes are taken as Latin-1. Returns NULL only without memory. */
json_t *mlr_json_text(const char *s);

/* A number, or null for one that JSON has not: infinite or not a number. */
json_t *mlr_json_real(double v);

/* An array of such strings. */
json_t *mlr_json_texts(const struct strv *l);

/* An object of keys and texts, which alternate. */
json_t *mlr_json_pairs(const struct strv *l);

/* Print a value as json_dumps(3) does, and free it. Ends the program without memory. To free(). */
char *mlr_json_print(json_t *take, size_t flags);

/* The list of `value`, an expression with i, for each i below n. */
#define MLR_JSON_LIST(i, n, value)                                 \
	({                                                         \
		json_t *i##_list_ = json_array();                  \
		for (__typeof__((n) + 0) i = 0; i < (n); i++)      \
			json_array_append_new(i##_list_, (value)); \
		i##_list_;                                         \
	})
