/* Reads the objects of a CDI file by tables of their fields; an error names the key. */
#ifndef MLR_CDI_READ_H
#define MLR_CDI_READ_H

#include "base/error.h"
#include "base/strv.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cdi_reader {
	struct mlr_error *err;
	void *ctx; /* the caller's */
};

struct cdi_field {
	const char *key; /* NULL ends a table */
	int (*read)(struct cdi_reader *r, const json_t *j, void *to);
	size_t at;   /* offset of the result in the struct */
	int must;    /* required, and not empty */
	int is_list; /* read reads an item of it, and at is the same for all */
};

/* Parse JSON, or else YAML. What begins with '{' and is neither gets the JSON parser's error.
 * Returns 0, -EPROTO, -ENOMEM. */
int cdi_read_load(const char *text, size_t size, json_t **ret, struct mlr_error *err);

/* Read an object's fields. A null field is as if absent. */
int cdi_read_object(
	struct cdi_reader *r, const json_t *j, const struct cdi_field *fields, void *to);

/* For tables; to is char ** (an empty string counts as absent), struct strv * (for a list),
 * int64_t *, int64_t *, int *. Where a string is expected, numbers and booleans are taken as
 * strings: YAML may omit the quotes. */
int cdi_read_text(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_text_item(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_int64(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_uint32(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_bool(struct cdi_reader *r, const json_t *j, void *to);

int cdi_read_wrong(struct cdi_reader *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int cdi_read_type(struct cdi_reader *r, const char *wanted, const json_t *is);

#endif
