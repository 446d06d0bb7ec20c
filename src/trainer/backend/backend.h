/*
 * A backend is a table of functions; an engine is one backend made ready for one network and one
 * batch size. `reference` is plain loops and always there; `onednn` is the fast one for CPUs and is
 * checked against it. From the same parameters, images, labels and dropout seed both give the same
 * loss and gradients within float rounding.
 *
 * An engine owns its parameters in whatever layout suits it; get and set speak the canonical block
 * of layer.h. Nothing here allocates after open.
 */
#ifndef MLT_BACKEND_BACKEND_H
#define MLT_BACKEND_BACKEND_H

#include "base/error.h"
#include "trainer/backend/layer.h"

#include <stddef.h>
#include <stdint.h>

struct engine {
	const struct backend *backend;
	float *input;  /* [batch][c][h][w]: the caller writes images here before forward and step */
	size_t memory; /* bytes of the engine's memory plan: everything it holds, parameters
			  included */
	int batch;
	int threads;   /* that compute */
};

struct engine_config {
	int batch;   /* images a step, > 0 */
	int threads; /* > 0; `reference` computes with one whatever is said */
};

/* The blocks of an engine, each laid out as the parameters are. */
enum engine_block {
	ENGINE_PARAMS,
	ENGINE_VELOCITY, /* momentum's; zero at the start */
	ENGINE_GRADS,    /* of the cross-entropy alone, as the latest step left them */
};

/* What one step of training needs besides images and labels. */
struct step {
	float lr, momentum;
	float l2;              /* factor of the penalty on layers with decay */
	uint64_t dropout_seed; /* the run's seed */
	uint64_t number;       /* the step's, from 0: picks its dropout masks */
};

struct step_result {
	double cross_entropy; /* mean over the batch */
	double penalty; /* l2 * (sum of squares of decaying parameters) / 2, before the update */
	double norm2;         /* sum of squares of all parameters, before the update */
	int wrong;            /* images of the batch not classified as labelled */
};

struct backend {
	const char *name;
	const char *about;

	/*
	 * Make an engine for layers[n] (inferred and checked, borrowed for the engine's life; the
	 * last one's output, a row, is the logits). Parameters and velocity start at zero. Returns
	 * 0, -ENOMEM with the bytes, -ENOTSUP when this backend can't run a layer (named).
	 */
	int (*open)(const struct layer *layers, size_t n, const struct engine_config *config,
		struct engine **ret, struct mlr_error *err);
	void (*close)(struct engine *e);

	void (*get)(struct engine *e, enum engine_block which, float *params);
	/* ENGINE_GRADS can't be set. */
	void (*set)(struct engine *e, enum engine_block which, const float *params);

	/*
	 * Predict: the logits [batch][classes] of the images in input, of which rows 0..n-1 are
	 * meaningful. They stay the engine's, until the next call.
	 */
	const float *(*forward)(struct engine *e, int n);

	/*
	 * One step of stochastic gradient descent with momentum on the batch in input:
	 *
	 *   g = d(cross_entropy)/dp + l2 * p (layers with decay)    v = momentum * v + g    p = p -
	 * lr * v
	 *
	 *   labels   [batch], each below the number of classes
	 */
	void (*step)(struct engine *e, const uint8_t *labels, const struct step *s,
		struct step_result *ret);
};

/*
 * The backend of that name; "auto" takes the fastest that was built in. Returns NULL when there is
 * none; backend_names() tells which there are: "onednn, reference".
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

#endif
