/* The store's small JSON files: objects of limited size, replaced atomically. */
#ifndef MLR_STORE_JSON_H
#define MLR_STORE_JSON_H

#include "base/error.h"
#include "base/record.h"
#include "base/strv.h"
#include "store/store.h"

#include <jansson.h>

#define STORE_JSON_MAX (4u << 20) /* bytes; the limit of configurations, too */

/* Read an object. Returns 0, -ENOENT, or -EPROTO naming file and line, with a hint. */
int store_json_read(struct store *st, const char *path, json_t **ret, struct mlr_error *err);

/* Read an object into a struct. Returns 0, -ENOENT, or -EPROTO as above. */
int store_json_take(struct store *st, const char *path, const struct record_row *rows, void *to,
	struct mlr_error *err);

/* Write o to path, a directory's and a name. A file with the same text only gets a new time. */
int store_json_write(struct store *st, const char *path, const json_t *o, struct mlr_error *err);

/* Set the error "path is not one of mlrun's files: why", with a hint. Returns -EPROTO. */
int store_json_bad(struct store *st, const char *path, const char *why, struct mlr_error *err);

/* Copy a string member, to free(); NULL if it is missing or null. Returns 0 or -EPROTO. */
int store_json_string(const json_t *o, const char *key, char **ret);

/* Add the strings of an array member to ret; none if it is missing or null. Returns 0 or -EPROTO.
 */
int store_json_strv(const json_t *o, const char *key, struct strv *ret);

/* Make JSON of a string or a list. Never NULL. */
json_t *store_json_from_string(const char *s);
json_t *store_json_from_strv(const struct strv *l);

#endif
