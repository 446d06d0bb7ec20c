/*
 * A recipe as JSON: the object "train" of a description (net_file.h, mltrain-net(5)).
 */
#ifndef MLT_MODEL_RECIPE_FILE_H
#define MLT_MODEL_RECIPE_FILE_H

#include "base/error.h"
#include "model/recipe.h"

#include <jansson.h>

/*
 * Set what the object says.
 *
 *   ret   holds the defaults; as it was after a failure
 *
 * Returns 0, or -EINVAL with "train: 'lr' must be …".
 */
int recipe_parse(const json_t *object, struct recipe *ret, struct mlr_error *err);

/* Its member "schedule" alone: what the object does not say is the kind's default. */
int recipe_schedule_parse(const json_t *object, struct schedule *ret, struct mlr_error *err);

/* The object that recipe_parse() makes this recipe of; the caller's. */
json_t *recipe_json(const struct recipe *r);

#endif
