/* The store's small JSON files: objects of limited size, replaced atomically. */
#pragma once

#include "base/record.h"
#include "store/store.h"

#define STORE_JSON_MAX (4u << 20) /* bytes; the limit of configurations, too */

/* Read an object. Returns 0, -ENOENT, or -EPROTO naming file and line, with a hint. */
int store_json_read(struct store *st, const char *path, json_t **ret, struct mlr_error *err);

/* Read an object into a struct. Returns 0, -ENOENT, or -EPROTO as above. */
int store_json_take(struct store *st, const char *path, const struct record_row *rows, void *to,
	struct mlr_error *err);

/* Write o to path, a directory's and a name. A file with the same text only gets a new time. */
int store_json_write(struct store *st, const char *path, const json_t *o, struct mlr_error *err);

/* Write a struct to path, as above. */
int store_json_put(struct store *st, const char *path, const struct record_row *rows,
	const void *from, struct mlr_error *err);

/* Set the error "path is not one of mlrun's files: why", with a hint. Returns -EPROTO. */
int store_json_bad(struct store *st, const char *path, const char *why, struct mlr_error *err);
