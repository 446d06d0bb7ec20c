/*
 * model: describes, validates and stores networks and checkpoints; computes nothing.
 *
 * A network is a list of layers, each of which reads only earlier ones. net_new() infers every
 * shape and refuses invalid layers by name; backends trust its result. net_file.h reads
 * descriptions that users write.
 */
#pragma once

#include "backend/layer.h"

#define NET_NAME_MAX   64
#define NET_ABOUT_MAX  256
#define NET_LAYERS_MAX 4096

struct net {
	char name[NET_NAME_MAX];
	char about[NET_ABOUT_MAX]; /* a line for users; "" if the description has none */
	struct shape input;        /* [channels][height][width] of one image */
	int classes;               /* units of the last layer */
	size_t n;
	struct layer *layers; /* [n], owned */
	size_t params;        /* floats in a parameter block */
	size_t states;        /* floats in a block of states (layer.h) */
};

/*
 * Make a network of layers without shapes.
 *
 *   name     for messages and files
 *   input    one image
 *   layers   [n], copied; names are unique, of letters, digits and "_-./"; from and with name
 *            earlier layers or LAYER_INPUT; the last one is dense, with at most 65535 units, and
 *            every other is read by some layer
 *
 * Returns 0, or -EINVAL with the layer's name and number: a window larger than its input, a size of
 * zero, an invalid rate, shapes that cannot be added, more parameters than memory can address, …
 */
int net_new(const char *name, struct shape input, const struct layer *layers, size_t n,
	struct net **ret, struct mlr_error *err);

void net_free(struct net **net);

/* Return the name of a layer; "input" for LAYER_INPUT. */
static inline const char *net_layer_name(const struct net *net, int which)
{
	return which < 0 ? "input" : net->layers[which].name;
}

/* Check that a backend, which counts in int, can compute a batch of this size. Returns 0 or
 * -EINVAL, naming the largest batch. */
int net_check_batch(const struct net *net, int batch, struct mlr_error *err);

/*
 * Fill a parameter block [net->params] with initial values: weights from a normal distribution with
 * the layer's sigma, cut at 2 sigma; constant biases; gamma 1 and beta 0 for batch norm. The same
 * seed gives the same values everywhere.
 */
void net_init_params(const struct net *net, uint64_t seed, float *params);

/* Fill a block of states [net->states]: means 0, variances 1. */
void net_init_states(const struct net *net, float *states);

/* Count the floating-point operations of one image's forward pass through one layer, or through
 * all. Only convolutions (with their borders) and dense layers count, a multiplication and an
 * addition as two. */
double net_layer_flops(const struct layer *l);
double net_flops(const struct net *net);
