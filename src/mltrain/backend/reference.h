/*
 * The engine of the backend `reference` and its layers, for reference.c, which runs them in order,
 * and reference_layer.c.
 */
#ifndef MLT_BACKEND_REFERENCE_H
#define MLT_BACKEND_REFERENCE_H

#include "backend/backend.h"
#include "optimiser/optimiser.h"

/* One layer's place in the engine's block of memory. */
struct place {
	float *y;          /* its output */
	float *dy;         /* gradient of the loss with respect to y: the sum over y's readers */
	float *mask;       /* dropout */
	float *mean, *var; /* batch norm: of the latest forward pass [channels] */
	uint8_t *winner;   /* max-pooling */
};

struct reference {
	struct engine engine; /* first, so that a pointer to one is a pointer to both */
	const struct layer *layers;
	size_t n;
	enum engine_use use;
	int optimiser;
	float smoothing;
	size_t params; /* floats in each of the next blocks */
	float *param, *grad, *kept[OPTIMISER_STATES_MAX];
	size_t states;
	float *state;
	struct image_norm norm;
	const struct exchange *exchange; /* NULL: alone */
	int first_row, all_rows;         /* of the batch of all ranks */
	float *input;                    /* [batch][c][h][w] */
	float *dx;                       /* gradient from one reader */
	double *sums;                    /* batch norm's, of the current layer, owned */
	struct place *place;             /* [n], owned */
	float *block;                    /* everything else, owned */
};

/* Return the number of ranks. */
int reference_ranks(const struct reference *r);

/* Compute the output of layer i for the first n rows; step is NULL in prediction. */
int reference_layer_forward(
	struct reference *r, size_t i, int n, const struct step *step, struct mlr_error *err);

/* Write the gradient of layer i's input to dx (NULL: not needed), and those of its parameters to
 * their places. LAYER_ADD's is dy itself. */
int reference_layer_backward(struct reference *r, size_t i, float *dx, struct mlr_error *err);

#endif
