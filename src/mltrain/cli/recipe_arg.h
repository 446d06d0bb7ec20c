/*
 * Parses options of mltrain train that have a syntax of their own. Errors end the program as
 * argp_error(3) does.
 */
#ifndef MLT_RECIPE_ARG_H
#define MLT_RECIPE_ARG_H

#include "model/recipe.h"

#include <argp.h>

/* --augment, a struct augment_policy: "none" or a part of "shift=PIXELS,flip,cutout=PIXELS". */
void recipe_arg_augment(void *field, char *arg, struct argp_state *state);

/*
 * --schedule, a struct schedule: "KIND[,KEY=NUMBER...]", at=E:E:E for several numbers. Keys, limits
 * and defaults are those of a description's schedule (recipe_file.h), so that checkpoints can
 * contain it. The field keeps its warm-up.
 */
void recipe_arg_schedule(void *field, char *arg, struct argp_state *state);

#endif
