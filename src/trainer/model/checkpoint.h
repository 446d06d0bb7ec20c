/*
 * A checkpoint: a network's parameters as a safetensors file that other programs read too. Tensors
 * are called LAYER.weight and LAYER.bias and have PyTorch's shapes; a dense layer behind an image
 * reads it flattened channel by channel, as torch.flatten() does. What else is needed to use them
 * stands in the metadata, all as strings:
 *
 *   net      "convolutional"        input    "1x28x28"
 *   mean     "127.5"                scale    "255"        a pixel enters as (pixel - mean) / scale
 *   epoch    epochs completed       step     steps done
 *   seed     the run's              batch    images a step
 *   backend  that trained           data     directory of the data set
 *   version  of mltrain
 */
#ifndef MLT_MODEL_CHECKPOINT_H
#define MLT_MODEL_CHECKPOINT_H

#include "base/error.h"
#include "trainer/model/net.h"

#include <stdint.h>

/* How pixels enter every network here. */
#define INPUT_MEAN  127.5f
#define INPUT_SCALE 255.0f

struct checkpoint_info {
	int epoch, batch;
	uint64_t step, seed;
	const char *backend, *data; /* borrowed; NULL when read */
};

/*
 * Refuse now what checkpoint_write() would refuse after hours of training: path is a directory, or
 * its directory is missing or not writable. Leaves nothing behind.
 */
int checkpoint_probe(const char *path, struct mlr_error *err);

/*
 * Write a checkpoint as one act: after a failure or a kill, the file is what it was before.
 *
 *   params   [net->params], canonical
 */
int checkpoint_write(const char *path, const struct net *net, const float *params,
	const struct checkpoint_info *info, struct mlr_error *err);

/*
 * Read a checkpoint: make its network and its parameters.
 *
 *   net      to net_free()
 *   params   [net->params], to free()
 *
 * Returns 0, or -ENOENT and kin, -EPROTO when damaged or when tensors are missing, superfluous or
 * of another shape than the network's (named), -ENOTSUP for a network that is not known, -ENOMEM.
 * Errors name the file.
 */
int checkpoint_read(const char *path, struct net **net, float **params,
	struct checkpoint_info *info, struct mlr_error *err);

#endif
