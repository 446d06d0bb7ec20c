/*
 * A backend is a table of functions; an engine is a backend prepared for one network and batch
 * size. `reference` is plain loops and always available; `onednn` is fast on CPUs, `cuda` on
 * NVIDIA's GPUs; tests compare both with it. From the same parameters, images, labels and seed all
 * give the same loss and gradients within rounding.
 *
 * An engine has its parameters in its own layout; get and set use the canonical block of layer.h.
 * Nothing allocates after open.
 */
#pragma once

#include "tensor/batch.h"
#include "backend/exchange.h"
#include "backend/layer.h"
#include "tensor/shape.h"
#include "tensor/plugin.h"

struct engine {
	const struct backend *backend;
	size_t memory; /* bytes of the engine's memory plan: everything it holds, parameters
			  included */
	int batch;
	int threads; /* computing threads; 0 on a GPU */
	enum dtype dtype;
	int steps_at_once; /* how many steps a fast call of step() has */
	uint64_t layout;   /* equal on ranks with the same layout of gradients */
	char device[64];   /* "NVIDIA H200", "" for the CPU */
	const char *isa;   /* "avx2": the CPU's instructions that it computes with; NULL: unknown */
};

enum engine_use {
	ENGINE_TRAINS,   /* step and predict */
	ENGINE_PREDICTS, /* only predict: no gradients, less memory, more fused layers */
};

struct engine_config {
	int batch;   /* images of a step on this rank, > 0 */
	int threads; /* > 0; `reference` always computes with one */
	enum dtype dtype;
	enum engine_use use;
	int deterministic; /* the same bits each time, even if slower */
	int optimiser;     /* optimiser/optimiser.h */
	float smoothing;   /* of labels, in [0, 1]: op_smooth_loss() (backend/ops.h) */
	struct image_norm norm;
	const struct exchange *exchange; /* NULL: one process. Borrowed for the engine's life */
	/* This rank's rows among the all_rows of all ranks' batch. 0 and 0: equal shares, by rank.
	 */
	int first_row, all_rows;
};

/* The rows of a step on all ranks, and which of them is this rank's first. */
static inline int engine_all_rows(const struct engine_config *c)
{
	return c->all_rows ? c->all_rows : c->batch * (c->exchange ? c->exchange->ranks : 1);
}

static inline int engine_first_row(const struct engine_config *c)
{
	return c->all_rows ? c->first_row : c->batch * (c->exchange ? c->exchange->rank : 0);
}

/* The blocks of an engine. All but ENGINE_STATES have the layout of the parameters. */
enum engine_block {
	ENGINE_PARAMS,
	ENGINE_GRADS,     /* of the cross-entropy alone, from the latest step; cannot be set */
	ENGINE_STATES,    /* batch norm's running mean and variance; 0 and 1 at the start */
	ENGINE_OPTIMISER, /* + n: the optimiser's nth block; zero at the start */
};

/* The numbers of a training step besides its batch. */
struct step {
	float lr, momentum;
	float l2;        /* factor of the penalty, times each layer's decay */
	uint64_t seed;   /* the run's: determines the dropout masks (tensor/philox.h) */
	uint64_t number; /* of the step, from 0 */
};

/* Sums over this rank's share of the batch; norm2 and penalty are the same on every rank. */
struct step_result {
	double cross_entropy; /* mean over the rows, with smoothed labels if the engine smooths */
	double penalty; /* l2 * (sum of squares of decaying parameters) / 2, before the update */
	double norm2;   /* sum of squares of all parameters, before the update */
	int wrong;      /* images not classified as labelled */
};

/* The machine's limits, to compare a step with. */
struct engine_ceiling {
	double flops, flops_seconds; /* of one large matrix product in the engine's dtype */
	double bytes, bytes_seconds; /* read and written by a copy in the engine's memory; 0 bytes:
					not measured, as it is the host's memory */
};

struct backend {
	const char *name;
	const char *about;

	/*
	 * Make an engine for layers[n] (inferred and checked, borrowed for the engine's life; the
	 * last one's output, a row, is the logits). Returns 0, -ENOMEM with the bytes, -ENOTSUP
	 * for a layer (named), an optimiser, a loss or a dtype that this backend cannot run here,
	 * -ENODEV without a GPU.
	 */
	int (*open)(const struct layer *layers, size_t n, const struct engine_config *config,
		struct engine **ret, struct mlr_error *err);
	void (*close)(struct engine *e);

	int (*get)(struct engine *e, enum engine_block which, float *to, struct mlr_error *err);
	int (*set)(struct engine *e, enum engine_block which, const float *from,
		struct mlr_error *err);

	/*
	 * Many batches will refer to images [count][c][h][w], which stay valid for the engine's
	 * life. An engine with other memory copies them if they fit. May be NULL.
	 */
	int (*hold)(struct engine *e, const uint8_t *images, size_t count, struct mlr_error *err);

	/* Predict: the logits [rows][classes] of a batch of up to the engine's size. */
	int (*predict)(
		struct engine *e, const struct batch *batch, float *logits, struct mlr_error *err);

	/*
	 * Run n steps of the optimiser, each on its batch. The mean of the cross-entropy is over
	 * the batches of all ranks. For SGD with momentum:
	 *
	 *   g = d(cross_entropy)/dp + decay * l2 * p    v = momentum * v + g    p = p - lr * v
	 *
	 * Returns 0 with ret [n], or -EIO if a device or another rank failed. On a CPU parameters
	 * and the optimiser's blocks are as before the step that failed then, on a GPU as before
	 * the call if the exchange has lost() and the device works, else undefined. ENGINE_STATES
	 * may have followed the images.
	 */
	int (*step)(struct engine *e, const struct batch *batches, const struct step *steps, int n,
		struct step_result *ret, struct mlr_error *err);

	/* Describe the memory plan in lines of text, to free(). May be NULL. */
	char *(*plan)(const struct engine *e);

	/*
	 * Measure n times, to ret [n], how fast this backend's library is on this machine. Returns
	 * 0, or -ENOTSUP and kin. NULL: the backend has no library.
	 */
	int (*ceiling)(struct engine *e, int n, struct engine_ceiling *ret, struct mlr_error *err);
};

/* Have the CPU's backends compute with no wider instructions than these: "avx2" and kin
 * (backend/dnn.h). Call it before an engine is opened. Returns 0; -EINVAL; -ENOTSUP if this machine
 * does not have them, or without oneDNN. */
int backend_limit_isa(const char *name, struct mlr_error *err);

/* The plugin mltrain-cuda.so: its symbol mltrain_cuda (tensor/plugin.h). */
struct cuda_plugin {
	struct plugin plugin;
	const struct backend *backend;
};

/*
 * Find a backend by name; "auto" is the fastest that works here. Returns NULL if there is none.
 * backend_names() lists them: "onednn, reference".
 */
const struct backend *backend_find(const char *name);
const char *backend_names(void);

/* Return the fastest backend for this machine's CPU. */
const struct backend *backend_of_cpu(void);

extern const struct backend backend_reference;
extern const struct backend backend_onednn; /* only if configure found oneDNN */
/* They load the plugin mltrain-cuda.so when an engine is opened, whose table names the backend that
 * computes. */
extern const struct backend backend_cuda;
extern const struct backend backend_auto; /* the CPU's if the GPU does not work; says why */

static inline void engine_close(struct engine **e)
{
	if (*e)
		(*e)->backend->close(*e);
	*e = NULL;
}

static inline int engine_get(
	struct engine *e, enum engine_block which, float *to, struct mlr_error *err)
{
	return e->backend->get(e, which, to, err);
}

static inline int engine_set(
	struct engine *e, enum engine_block which, const float *from, struct mlr_error *err)
{
	return e->backend->set(e, which, from, err);
}

/* Set parameters, the optimiser's n blocks, and states unless they are NULL. */
int backend_set_all(struct engine *e, const float *params, float *const kept[], int n,
	const float *states, struct mlr_error *err);

static inline int engine_hold(
	struct engine *e, const uint8_t *images, size_t count, struct mlr_error *err)
{
	return e->backend->hold ? e->backend->hold(e, images, count, err) : 0;
}

static inline int engine_predict(
	struct engine *e, const struct batch *batch, float *logits, struct mlr_error *err)
{
	return e->backend->predict(e, batch, logits, err);
}

static inline int engine_step(struct engine *e, const struct batch *batches,
	const struct step *steps, int n, struct step_result *ret, struct mlr_error *err)
{
	return e->backend->step(e, batches, steps, n, ret, err);
}
