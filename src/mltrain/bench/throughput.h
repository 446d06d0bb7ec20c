/*
 * bench: the speed of engines on this machine, with synthetic images, and the machine's ceilings
 * (Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model", 2009),
 * measured, not looked up. Measures; prints nothing.
 */
#pragma once

#include "backend/backend.h"
#include "model/net.h"

/* Rounds of a measurement, since other work disturbs single ones; odd, so that the median is a
 * measured value. */
#define ROUNDS 7

struct spread {
	double median, min, max;
};

/* Sort v [n], n > 0, and return its spread. */
struct spread roofline_spread(double *v, int n);

struct roofline {
	int has_product;       /* 0: the backend has no library to measure */
	struct spread product; /* operations a second of a large matrix product */
	struct spread copy;    /* bytes a second, read and written */
};

/*
 * Measure an engine's ceilings: its library's matrix product in its dtype, and a copy in its
 * memory, by its threads if that is the host's. Returns 0, or the error of the backend's ceiling().
 */
int roofline_measure(struct engine *e, struct roofline *ret, struct mlr_error *err);

enum roofline_bound { BOUND_NONE, BOUND_PRODUCT, BOUND_COPY };

/*
 * The fewest seconds that these operations and bytes could take, and which of the two is the bound.
 * BOUND_NONE, and 0, if no product was measured.
 */
enum roofline_bound roofline_seconds(
	const struct roofline *r, double flops, double bytes, double *ret);

struct throughput_wish {
	const struct net *net;
	const struct backend *backend;
	enum engine_use use;
	enum dtype dtype;
	int batch, threads;
	double seconds; /* of measuring, without preparation */
	uint64_t seed;  /* of images, labels and weights */
};

struct throughput {
	struct spread step; /* seconds of one batch; medians of rounds */
	uint64_t steps;     /* of one round */
	size_t memory;      /* bytes of the engine's plan */
	char *plan;         /* in words, to free(), or NULL */
};

/*
 * Make an engine with initial weights, and images and labels for it.
 *
 *   ret   to engine_close()
 *
 * Returns 0, -ENOTSUP, -ENODEV, -ENOMEM as the backend's open() does.
 */
int throughput_open(const struct throughput_wish *w, struct engine **ret, struct mlr_error *err);

/*
 * Measure: some steps to warm up and to see how long they take, then ROUNDS rounds.
 *
 * Returns 0, or -ENOMEM, or what the engine's step() and predict() give.
 */
int throughput_measure(
	const struct throughput_wish *w, struct throughput *ret, struct mlr_error *err);

/* The least work of a batch: operations of convolutions and dense layers (net_flops, three
 * times of that to train), and bytes of parameters that are read and written. */
double throughput_flops(const struct throughput_wish *w);
double throughput_bytes(const struct throughput_wish *w);
