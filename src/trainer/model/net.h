/*
 * model: networks - their description, their initial weights, their files. Drives a backend.
 *
 * This header: a network is data, a list of layers in order. Descriptions come from tables in C
 * (the reference network) and become complete by net_new(), which infers every shape and checks
 * every number, so that whatever else makes descriptions need check nothing.
 */
#ifndef MLT_MODEL_NET_H
#define MLT_MODEL_NET_H

#include "base/error.h"
#include "trainer/backend/layer.h"

#include <stddef.h>
#include <stdint.h>

struct net {
	char name[LAYER_NAME_MAX];
	struct shape input; /* of one image: [channels][height][width] */
	struct layer *layers; /* [n], owned, inferred */
	size_t n;
	size_t params; /* floats in a parameter block */
	int classes;   /* the width of the last layer's row */
};

/*
 * Make a network of described layers.
 *
 *   name     for checkpoints and logs
 *   input    [channels][height][width] of an image
 *   layers   [n]; only the described fields are read; copied
 *
 * Returns 0 and a network to net_free(), or -EINVAL with the layer's name and number and what is
 * wrong with it: sizes that are not positive or too large, a kernel larger than its padded input,
 * an image layer after a dense one, a name used twice, a last layer that is not dense.
 */
int net_new(const char *name, struct shape input, const struct layer *layers, size_t n,
	struct net **ret, struct mlr_error *err);

void net_free(struct net **net);

/* Can engines count the elements of so many images' activations (in an int)? Returns 0 or -EINVAL. */
int net_check_batch(const struct net *net, int batch, struct mlr_error *err);

/*
 * The reference network, that of TensorFlow's tutorial models/image/mnist/convolutional.py: conv
 * 5x5x32, ReLU, max-pool 2, conv 5x5x64, ReLU, max-pool 2, dense 512, ReLU, dropout, dense; all
 * convolutions keep height and width.
 *
 *   input     of an image; the tutorial's is [1][28][28]
 *   classes   units of the last layer; the tutorial's 10
 *   dropout   rate; the tutorial's 0.5
 */
int net_reference(
	struct shape input, int classes, float dropout, struct net **ret, struct mlr_error *err);

/*
 * Draw initial parameters: weights from a normal distribution cut at two deviations, biases as
 * described. Each layer draws from a stream of its own, so a layer's weights depend on the seed and
 * its place alone.
 *
 *   params   [net->params]
 */
void net_init_params(const struct net *net, uint64_t seed, float *params);

#endif
