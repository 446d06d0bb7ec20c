/* Objects of a CDI file by tables of their fields; what is wrong is named by its key. For
 * cdi/spec.c. */
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
	const char *key; /* NULL: the end of a table */
	int (*read)(struct cdi_reader *r, const json_t *j, void *to);
	size_t at; /* of what is read, in the struct */
	int must;  /* it is not to be left out, nor empty */
};

/* JSON, or else YAML. What begins as JSON and is neither is told as JSON that is wrong. Returns 0,
 * -EPROTO, -ENOMEM. */
int cdi_read_load(const char *text, size_t size, json_t **ret, struct mlr_error *err);

/* null is the same as no value at all. */
int cdi_read_object(
	struct cdi_reader *r, const json_t *j, const struct cdi_field *fields, void *to);
int cdi_read_list(struct cdi_reader *r, const json_t *j,
	int (*read)(struct cdi_reader *r, const json_t *j, void *to), void *to);
int cdi_read_texts(struct cdi_reader *r, const json_t *j, struct strv *ret);

/* For tables. to is char ** (an empty text is none), struct strv *, int64_t *, int64_t *, int *.
 * Numbers and truth values are texts where a text is wanted: YAML's without quotes. */
int cdi_read_text(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_texts_field(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_int64(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_uint32(struct cdi_reader *r, const json_t *j, void *to);
int cdi_read_bool(struct cdi_reader *r, const json_t *j, void *to);

int cdi_read_wrong(struct cdi_reader *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int cdi_read_type(struct cdi_reader *r, const char *wanted, const json_t *is);

#endif
