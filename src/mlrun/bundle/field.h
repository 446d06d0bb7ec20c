/* Reads members of a JSON object; a wrong type is an error that names the member. */
#ifndef MLR_BUNDLE_FIELD_H
#define MLR_BUNDLE_FIELD_H

#include "base/error.h"
#include "base/strv.h"

#include <jansson.h>

/* Each returns 0, also for a missing member or null, which leaves *ret as it is, or -EPROTO.
 * Strings, objects and lists stay the document's. o may be NULL. */
int field_text(const json_t *o, const char *key, const char **ret, struct mlr_error *err);
int field_object(const json_t *o, const char *key, const json_t **ret, struct mlr_error *err);
int field_list(const json_t *o, const char *key, const json_t **ret, struct mlr_error *err);
int field_flag(const json_t *o, const char *key, int *ret, struct mlr_error *err);

/* A whole number in a range. */
int field_number(const json_t *o, const char *key, json_int_t min, json_int_t max, json_int_t *ret,
	struct mlr_error *err);

/* A list of strings, appended. */
int field_texts(const json_t *o, const char *key, struct strv *ret, struct mlr_error *err);

#endif
