/*
 * Compresses a stream in blocks, each by itself and on any core, and writes them in order. The same
 * bytes give the same output, however they arrive and on any number of cores.
 */
#pragma once

#include "layer/codec.h"

#define LAYER_BLOCK (512u << 10) /* bytes of input */

/* How to compress one block. A state is used by one thread at a time. */
struct layer_block_ops {
	void *(*state_new)(void);
	void (*state_free)(void *state);
	size_t room; /* for the output of LAYER_BLOCK bytes, in the worst case */
	/* Returns the length of the output. Cannot fail with that room. */
	size_t (*compress)(void *state, const void *in, size_t len, void *out);
};

/* An empty stream is one empty block. Threads start with the second block, one less than there are
 * cores; without them the caller compresses. */
struct layer_deflate *layer_blocks_new(const struct layer_block_ops *ops);

/* The threads that compress at once, the caller's included: the cores we may use, 8 at most. */
size_t layer_blocks_cores(void);
