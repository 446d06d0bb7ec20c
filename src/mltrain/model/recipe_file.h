/* Reads and writes a recipe as JSON: "train" of a description (net_file.h, mltrain-net(5)). */
#ifndef MLT_MODEL_RECIPE_FILE_H
#define MLT_MODEL_RECIPE_FILE_H

#include "base/error.h"
#include "model/recipe.h"

#include <jansson.h>

/*
 * Overwrite ret with the object's members.
 *
 *   ret   holds the defaults; unchanged after a failure
 *
 * Returns 0, or -EINVAL with "train: 'lr' must be …".
 */
int recipe_parse(const json_t *object, struct recipe *ret, struct mlr_error *err);

/* Read the member "schedule" alone. Missing keys get the kind's defaults. */
int recipe_schedule_parse(const json_t *object, struct schedule *ret, struct mlr_error *err);

/* Describe a recipe as recipe_parse() reads it. The caller owns the result. */
json_t *recipe_json(const struct recipe *r);

#endif
