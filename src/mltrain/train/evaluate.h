/* Tests a network on labelled images: counts its mistakes and keeps the worst. */
#ifndef MLT_TRAIN_EVALUATE_H
#define MLT_TRAIN_EVALUATE_H

#include "backend/backend.h"
#include "data/dataset.h"
#include "dist/dist.h"

#define EVALUATION_MISTAKES 24
#define EVALUATION_CLASSES  1024 /* with more there is no confusion matrix */

struct mistake {
	uint32_t index; /* of the image in its set */
	uint16_t label, guess;
	float probability; /* of the guess, says the network */
};

struct evaluation {
	uint32_t count;
	int64_t wrong;
	double cross_entropy; /* mean */
	int classes;
	uint32_t *confusion; /* [label][guess] counts images, owned; NULL: without details or above
				EVALUATION_CLASSES */
	struct mistake mistakes[EVALUATION_MISTAKES]; /* the highest probability first */
	int mistaken;                                 /* number of mistakes[] */
};

struct evaluation_of {
	struct engine *engine;
	const struct dataset *data;
	const struct image_set *set; /* one of data's */
	uint32_t count;              /* tests the first count images */
	int classes;                 /* of the network */
	int threads;                 /* decode images that are not in memory */
	int details;                 /* fill in confusion and mistakes too */
	struct dist *dist; /* each rank tests a part, all get the sums; NULL: one process */
	const volatile sig_atomic_t *stop; /* nonzero: end early; may be NULL */
};

/*
 * Predict the images and count mistakes. All ranks must call it alike; only rank 0 gets mistakes[].
 *
 *   ret   after success, release it with evaluate_done()
 *
 * Returns 0, -EINTR if a rank was stopped, or an error of engine_predict() or loader_take().
 */
int evaluate(const struct evaluation_of *what, struct evaluation *ret, struct mlr_error *err);
void evaluate_done(struct evaluation *e);

#endif
