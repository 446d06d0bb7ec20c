/* Reads and writes one layer as JSON: an element of "layers" (net_file.h, mltrain-net(5)). */
#ifndef MLT_MODEL_LAYER_FILE_H
#define MLT_MODEL_LAYER_FILE_H

#include "backend/layer.h"

#include <jansson.h>

/* The distribution of initial weights. All but INIT_NORMAL depend on the layer's shapes. */
enum layer_init { INIT_NORMAL, INIT_HE, INIT_XAVIER, INIT_ZERO };

/* Properties that the description does not decide. */
struct layer_wish {
	int classes;    /* of the data set; 0: unknown */
	double dropout; /* the rate of every dropout layer; < 0: its own */
};

/* Counts layers of each kind, to name those without a name: "relu3". */
struct layer_names {
	int used[LAYER_KINDS];
};

/*
 * Read layer i of a description into layers[i].
 *
 *   array   all of "layers": a generated name avoids those that users gave
 *   layers  [i] the earlier ones, which it may read by name
 *   init    set to the distribution of its weights, for layer_init_sigma()
 *
 * Returns 0, or -EINVAL with "layer 3 'conv2': …".
 */
int layer_parse(const json_t *array, size_t i, const struct layer_wish *wish,
	struct layer_names *names, struct layer *layers, enum layer_init *init,
	struct mlr_error *err);

/* Compute the standard deviation of a layer's initial weights; its shapes must be known. */
float layer_init_sigma(const struct layer *l, enum layer_init init);

/* Describe layers[i] with every value, as layer_parse() reads it. The caller owns the result. */
json_t *layer_json(const struct layer *layers, size_t i);

#endif
