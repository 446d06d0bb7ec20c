/*
 * One layer as JSON: an element of a description's "layers" (net_file.h, mltrain-net(5)).
 */
#ifndef MLT_MODEL_LAYER_FILE_H
#define MLT_MODEL_LAYER_FILE_H

#include "base/error.h"
#include "backend/layer.h"

#include <jansson.h>

/* How initial weights are spread; all but the first depend on the layer's shapes. */
enum layer_init { INIT_NORMAL, INIT_HE, INIT_XAVIER, INIT_ZERO };

/* What the description leaves to others. */
struct layer_wish {
	int classes;    /* of the data set; 0: not known */
	double dropout; /* every dropout layer's rate; < 0: its own */
};

/* The places of kinds' names, of which a layer without a name gets one: "relu3". */
struct layer_names {
	int used[LAYER_KINDS];
};

/*
 * Read layer i of a description into layers[i].
 *
 *   array   "layers", all of it: generated names keep clear of those that are given
 *   layers  [i] those before it, whose names it may read
 *   init    set to how its weights begin: layer_init_sigma() makes their deviation
 *
 * Returns 0, or -EINVAL with "layer 3 'conv2': …".
 */
int layer_parse(const json_t *array, size_t i, const struct layer_wish *wish,
	struct layer_names *names, struct layer *layers, enum layer_init *init,
	struct mlr_error *err);

/* The deviation of a layer's initial weights, once its shapes are known. */
float layer_init_sigma(const struct layer *l, enum layer_init init);

/* What layer_parse() makes layers[i] of, every value said; the caller's. */
json_t *layer_json(const struct layer *layers, size_t i);

#endif
