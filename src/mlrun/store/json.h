/*
 * The store's small JSON files: read with a ceiling, checked to be an object, written as one act.
 */
#ifndef MLR_STORE_JSON_H
#define MLR_STORE_JSON_H

#include "base/error.h"
#include "base/strv.h"
#include "store/store.h"

#include <jansson.h>

#define STORE_JSON_MAX (4u << 20) /* bytes; configurations are at most as large */

/* Read an object. Returns 0, -ENOENT, or -EPROTO naming file, line and the way out. */
int store_json_read(struct store *st, const char *path, json_t **ret, struct mlr_error *err);

/* Replace the file at path, a directory's and a name, by o; one that says so already is only dated
 * anew. */
int store_json_write(struct store *st, const char *path, const json_t *o, struct mlr_error *err);

/* "path is not one of mlrun's files: why", -EPROTO, with the way out. */
int store_json_bad(struct store *st, const char *path, const char *why, struct mlr_error *err);

/* A member that is a string, copied; nothing where it is missing or null. Returns 0 or -EPROTO. */
int store_json_string(const json_t *o, const char *key, char **ret);

/* A member that is an array of strings, added to ret; missing or null adds none. Returns alike. */
int store_json_strv(const json_t *o, const char *key, struct strv *ret);

/* The reverse; never NULL. */
json_t *store_json_from_string(const char *s);
json_t *store_json_from_strv(const struct strv *l);

#endif
