/*
 * How a network does on labelled images: what it gets wrong, and which mistakes are the worst.
 */
#ifndef MLT_TRAIN_EVALUATE_H
#define MLT_TRAIN_EVALUATE_H

#include "base/error.h"
#include "backend/backend.h"
#include "data/dataset.h"
#include "dist/dist.h"

#include <signal.h>
#include <stdint.h>

#define EVALUATION_MISTAKES 24
#define EVALUATION_CLASSES  1024 /* more have no table of confusion */

struct mistake {
	uint32_t index; /* of the image in its set */
	uint16_t label, guess;
	float probability; /* that the network gave the guess */
};

struct evaluation {
	uint32_t count;
	int64_t wrong;
	double cross_entropy; /* mean */
	int classes;
	uint32_t *confusion; /* [label][guess] images, owned; NULL: was not asked for, or beyond
				EVALUATION_CLASSES */
	struct mistake mistakes[EVALUATION_MISTAKES]; /* the most certain first */
	int mistaken;                                 /* how many of them there are */
};

#define EVALUATION_INIT \
	{               \
		0       \
	}

struct evaluation_of {
	struct engine *engine;
	const struct dataset *data;
	const struct image_set *set; /* one of data's */
	uint32_t count;              /* the first so many images */
	int classes;                 /* of the network */
	int threads;                 /* that decode images which are not in memory */
	int details;                 /* confusion and mistakes too */
	struct dist *dist;           /* each rank takes a part, all get the sums; NULL: alone */
	const volatile sig_atomic_t *stop; /* not 0: end early; may be NULL */
};

/*
 * Predict and count. With several ranks all call this alike, and the mistakes are rank 0's to know.
 *
 *   ret   to evaluate_done() after success
 *
 * Returns 0, -EINTR when any rank was stopped, or what engine_predict() and loader_take() give.
 */
int evaluate(const struct evaluation_of *what, struct evaluation *ret, struct mlr_error *err);
void evaluate_done(struct evaluation *e);

#endif
