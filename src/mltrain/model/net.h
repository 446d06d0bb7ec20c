/*
 * model: networks and their checkpoints. Describes, validates, stores; computes nothing.
 *
 * A network is data: layers in an order in which each reads only what lies before it. net_new()
 * infers every shape and refuses what can't be, naming the layer; backends trust what it made.
 * net_file.h reads descriptions that users write.
 */
#ifndef MLT_MODEL_NET_H
#define MLT_MODEL_NET_H

#include "base/error.h"
#include "backend/layer.h"

#include <stdint.h>

#define NET_NAME_MAX   64
#define NET_ABOUT_MAX  256
#define NET_LAYERS_MAX 4096

struct net {
	char name[NET_NAME_MAX];
	char about[NET_ABOUT_MAX]; /* a line for people; empty where the description has none */
	struct shape input;        /* [channels][height][width] of one image */
	int classes;               /* units of the last layer */
	size_t n;
	struct layer *layers; /* [n], owned */
	size_t params;        /* floats in a parameter block */
	size_t states;        /* floats in a block of states (layer.h) */
};

/*
 * Make a network of layers whose shapes are not known yet.
 *
 *   name     for messages and files
 *   input    one image
 *   layers   [n], copied; names are unique, of letters, digits and "_-./"; from and with name
 *            earlier layers or LAYER_INPUT; the last one is dense, with at most 65535 units, and
 *            every other is read by some layer
 *
 * Returns 0, or -EINVAL with the layer's name and number: a window larger than its input, a size of
 * zero, a rate that is no rate, shapes that can't be added, more parameters than memory could
 * address, …
 */
int net_new(const char *name, struct shape input, const struct layer *layers, size_t n,
	struct net **ret, struct mlr_error *err);

void net_free(struct net **net);

/* The name of a layer that another one reads: "input" for LAYER_INPUT. */
static inline const char *net_layer_name(const struct net *net, int which)
{
	return which < 0 ? "input" : net->layers[which].name;
}

/* Can a backend compute so many images at once? What it counts in int must fit. Returns 0 or
 * -EINVAL with the largest batch. */
int net_check_batch(const struct net *net, int batch, struct mlr_error *err);

/*
 * Fill a parameter block [net->params] with initial values: weights from the normal distribution of
 * each layer's sigma cut at 2 sigma, biases constant, batch norm's gamma 1 and beta 0. The same
 * seed gives the same values everywhere.
 */
void net_init_params(const struct net *net, uint64_t seed, float *params);

/* Fill a block of states [net->states]: means 0, variances 1. */
void net_init_states(const struct net *net, float *states);

/* Multiplications and additions of one image forward by convolutions and dense layers, two
 * operations each, borders counted: of one layer, of all. */
double net_layer_flops(const struct layer *l);
double net_flops(const struct net *net);

#endif
