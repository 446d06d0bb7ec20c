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

/*
 * Read a YAML document into JSON's values, as the readers of CDI files do (Go's sigs.k8s.io/yaml):
 * plain scalars are null, booleans and numbers by YAML 1.1's rules, quoted ones strings; keys are
 * strings; "<<" merges. Its bytes may be anything.
 *
 * Nesting ends at 32 levels, and at 200 000 values, where an alias counts as all that it stands
 * for, so that a few lines of aliases of aliases are refused. What an alias stands for is shared:
 * change nothing in it.
 *
 * Returns 0 and a value to json_decref(); -EPROTO naming the line, also for a key that stands
 * twice, a second document, a tag of somebody's own, text with a NUL; -ENOMEM.
 */
int cdi_yaml_load(const char *text, size_t size, json_t **ret, struct mlr_error *err);

#endif
