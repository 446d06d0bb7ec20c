/*
 * A backend is a table of functions; an engine is one backend made ready for one network and one
 * batch size. `reference` is plain loops and always there; `onednn` is the fast one for CPUs,
 * `cuda` the one for NVIDIA's GPUs; both are checked against it. From the same parameters, images,
 * labels and seed all give the same loss and gradients within rounding.
 *
 * An engine owns its parameters in whatever layout suits it; get and set speak the canonical block
 * of layer.h. Nothing here allocates after open.
 */
#ifndef MLT_BACKEND_BACKEND_H
#define MLT_BACKEND_BACKEND_H

#include "base/error.h"
#include "tensor/batch.h"
#include "backend/exchange.h"
#include "backend/layer.h"
#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct engine {
	const struct backend *backend;
	size_t memory; /* bytes of the engine's memory plan: everything it holds, parameters
			  included */
	int batch;
	int threads; /* that compute; 0 where that says nothing */
	enum dtype dtype;
	int steps_at_once; /* how many steps a call of step() should bring to be fast */
	uint64_t layout;   /* ranks whose engines agree here lay gradients out alike */
	char device[64];   /* "NVIDIA H200", "" for the CPU */
};

enum engine_use {
	ENGINE_TRAINS,   /* step and predict */
	ENGINE_PREDICTS, /* predict alone: no gradients, less memory, layers fused further */
};

struct engine_config {
	int batch;   /* images a step, on this rank, > 0 */
	int threads; /* > 0; `reference` computes with one whatever is said */
	enum dtype dtype;
	enum engine_use use;
	int deterministic; /* the same bits each time, even where that is slower */
	int optimiser;     /* optimiser/optimiser.h */
	struct image_norm norm;
	const struct exchange *exchange; /* NULL: alone. Borrowed for the engine's life */
};

/* The blocks of an engine. All but ENGINE_STATES are laid out as the parameters are. */
enum engine_block {
	ENGINE_PARAMS,
	ENGINE_GRADS,  /* of the cross-entropy alone, as the latest step left them; can't be set */
	ENGINE_STATES, /* batch norm's running mean and variance; 0 and 1 at the start */
	ENGINE_OPTIMISER, /* + n: the optimiser's nth block; zero at the start */
};

/* What one step of training needs besides its batch. */
struct step {
	float lr, momentum;
	float l2;        /* factor of the penalty, times each layer's decay */
	uint64_t seed;   /* the run's: names the dropout masks (tensor/philox.h) */
	uint64_t number; /* the step's, from 0 */
};

/* Of this rank's share of the batch, but for norm2 and penalty, which every rank has alike. */
struct step_result {
	double cross_entropy; /* mean over the rows */
	double penalty; /* l2 * (sum of squares of decaying parameters) / 2, before the update */
	double norm2;   /* sum of squares of all parameters, before the update */
	int wrong;      /* images not classified as labelled */
};

/* What a machine does in the best of cases, for what a step takes to be compared with. */
struct engine_ceiling {
	double flops, flops_seconds; /* of one large matrix product in the engine's dtype */
	double bytes, bytes_seconds; /* read and written by a copy in the engine's memory; 0 bytes:
					that is the host's, and was not measured */
};

struct backend {
	const char *name;
	const char *about;

	/*
	 * Make an engine for layers[n] (inferred and checked, borrowed for the engine's life; the
	 * last one's output, a row, is the logits). Returns 0, -ENOMEM with the bytes, -ENOTSUP
	 * when this backend can't run a layer (named), an optimiser or a dtype here, -ENODEV
	 * without a GPU.
	 */
	int (*open)(const struct layer *layers, size_t n, const struct engine_config *config,
		struct engine **ret, struct mlr_error *err);
	void (*close)(struct engine *e);

	int (*get)(struct engine *e, enum engine_block which, float *to, struct mlr_error *err);
	int (*set)(struct engine *e, enum engine_block which, const float *from,
		struct mlr_error *err);

	/*
	 * images [count][c][h][w] will be what many batches point into: an engine whose memory is
	 * elsewhere takes a copy, if it fits. They stay valid for the engine's life. May be NULL.
	 */
	int (*hold)(struct engine *e, const uint8_t *images, size_t count, struct mlr_error *err);

	/* Predict: the logits [rows][classes] of a batch of up to the engine's size. */
	int (*predict)(
		struct engine *e, const struct batch *batch, float *logits, struct mlr_error *err);

	/*
	 * n steps of the optimiser, one after the other, each on its batch. The cross-entropy's
	 * mean is over the batches of all ranks. For SGD with momentum:
	 *
	 *   g = d(cross_entropy)/dp + decay * l2 * p    v = momentum * v + g    p = p - lr * v
	 *
	 * Returns 0 with ret [n], or -EIO when a device or another rank failed: the engine's
	 * parameters are then not to be trusted.
	 */
	int (*step)(struct engine *e, const struct batch *batches, const struct step *steps, int n,
		struct step_result *ret, struct mlr_error *err);

	/* The memory plan as lines of text for people, to free(). May be NULL. */
	char *(*plan)(const struct engine *e);

	/*
	 * Measure, once, what the library that this backend computes with makes of this machine;
	 * allocates and frees. Returns 0, -ENOTSUP and kin when it can't. NULL: there is no
	 * library.
	 */
	int (*ceiling)(struct engine *e, struct engine_ceiling *ret, struct mlr_error *err);
};

/*
 * The backend of that name; "auto" takes the fastest that works here. Returns NULL when there is
 * none; backend_names() shows which there are: "onednn, reference".
 */
const struct backend *backend_find(const char *name);
const char *backend_names(void);

extern const struct backend backend_reference;
extern const struct backend backend_onednn; /* only where configure found oneDNN */

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

#endif
