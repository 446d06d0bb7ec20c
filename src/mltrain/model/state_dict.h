/*
 * Weights as PyTorch keeps them: a state dictionary in a safetensors file (safetensors.torch), a
 * tensor for each parameter and statistic of a module: "features.0.weight", "bn1.running_mean".
 * Layers and modules have the same shapes and layouts, flattened images included; names may differ.
 * A map, a JSON object, has the layers of modules, and null for tensors to leave out, and for
 * modules with all that is within them:
 *
 *   {"features.0": "conv1", "classifier.2": "fc1", "aux": null, "mean.weight": null}
 *
 * "" is the module of a model that is one module, whose tensors are "weight" and "bias".
 */
#pragma once

#include "model/net.h"
#include "tensor/safetensors.h"

#include <jansson.h>

#define STATE_DICT_MAP_MAX         ((size_t)1 << 20) /* bytes of a map that are read at most */
#define STATE_DICT_MAP_ENTRIES_MAX 16384

/* Read a map, to json_decref(). Returns 0, -EPROTO for what is no map, or sends two modules to one
 * layer, or an error of reading. Errors name the file. */
int state_dict_map_read(const char *path, json_t **ret, struct mlr_error *err);

/* The findings of state_dict_take(); release both lists. */
struct state_dict_words {
	struct strv matches;  /* "conv1 <- features.0": layers in order */
	struct strv problems; /* each tensor, layer and entry of the map that does not fit */
};

/*
 * Take a network's parameters and statistics from a state dictionary of F32, F16 or BF16.
 *
 *   map      NULL: none
 *   params   [net->params], states [net->states]: set after success
 *   words    empty; set after a failure too
 *
 * A layer takes the module that the map sends to it, else the one of its own name, else the only
 * one of its shapes. Where several layers have these shapes and as many modules whose names differ
 * in numbers alone ("features.0", "features.3"), they are matched in order. num_batches_tracked is
 * skipped.
 *
 * Returns 0, or -EPROTO unless every layer has its tensors and every tensor a layer.
 */
int state_dict_take(const struct safetensors *st, const struct net *net, const json_t *map,
	float *params, float *states, struct state_dict_words *words, struct mlr_error *err);

/*
 * Write a state dictionary into memory, with the names of layers, or of the modules that a map
 * sends to them. Its metadata have "weights", as a checkpoint (checkpoint.h). Takes and returns
 * what safetensors_build() does; -EINVAL for a map that does not fit.
 */
int state_dict_build(const struct net *net, const json_t *map, float *params, float *states,
	char **ret, size_t *len, struct mlr_error *err);
