/*
 * Writes a trained network as ONNX (github.com/onnx/onnx, docs/IR.md and Operators.md; opset 17, IR
 * version 8), for ONNX Runtime and others. Predicts only: batch norm uses the running statistics,
 * dropout is left out.
 *
 *   input           float [N][c][h][w], pixels from 0 to 255: the model normalises them
 *   logits          float [N][classes]
 *   probabilities   float [N][classes], their softmax
 *
 * Nodes and weights have the layers' names, as in checkpoints: "conv1.weight".
 */
#pragma once

#include "model/net.h"
#include "tensor/batch.h"

#define ONNX_FILE_MAX ((size_t)2147483647) /* bytes: protocol buffers have no larger message */

/*
 * Make a model's bytes.
 *
 *   params   [net->params]
 *   states   [net->states]
 *   classes  the names of the classes [net->classes], or NULL; a JSON array in the metadata
 *   ret, len  a buffer to free()
 *
 * Returns 0, -ENOMEM, -EFBIG.
 */
int onnx_build(const struct net *net, const float *params, const float *states,
	const struct image_norm *norm, char *const *classes, char **ret, size_t *len,
	struct mlr_error *err);
