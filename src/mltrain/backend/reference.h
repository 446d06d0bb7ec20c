/*
 * The engine of the backend `reference` and what its layers compute. For reference.c, which runs
 * them one after the other, and reference_layer.c.
 */
#ifndef MLT_BACKEND_REFERENCE_H
#define MLT_BACKEND_REFERENCE_H

#include "backend/backend.h"
#include "optimiser/optimiser.h"

/* One layer's place in the engine's block of memory. */
struct place {
	float *y;          /* its output */
	float *dy;         /* the loss's gradient with respect to it: the sum over its readers */
	float *mask;       /* dropout */
	float *mean, *var; /* batch norm: those of the latest forward pass [channels] */
	uint8_t *winner;   /* max-pooling */
};

struct reference {
	struct engine engine; /* first, so that one pointer serves both */
	const struct layer *layers;
	size_t n;
	enum engine_use use;
	int optimiser;
	size_t params; /* floats in each of the next blocks */
	float *param, *grad, *kept[OPTIMISER_STATES_MAX];
	size_t states;
	float *state;
	struct image_norm norm;
	const struct exchange *exchange; /* NULL: alone */
	float *input;                    /* [batch][c][h][w] */
	float *dx;                       /* one reader's part of a gradient */
	double *sums;                    /* batch norm's, of the layer at hand, owned */
	struct place *place;             /* [n], owned */
	float *block;                    /* everything else, owned */
};

/* Ranks that train together. */
int reference_ranks(const struct reference *r);

/* The output of layer i for the first n rows from what it reads; step is NULL when predicting. */
int reference_layer_forward(
	struct reference *r, size_t i, int n, const struct step *step, struct mlr_error *err);

/* Write the gradient with respect to what layer i reads into dx (NULL: nobody needs it), and those
 * of its parameters into their place. LAYER_ADD's is what its readers gave, dy itself. */
int reference_layer_backward(struct reference *r, size_t i, float *dx, struct mlr_error *err);

#endif
