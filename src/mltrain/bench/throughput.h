/*
 * How many images per second an engine trains on or predicts, with synthetic images.
 */
#ifndef MLT_BENCH_THROUGHPUT_H
#define MLT_BENCH_THROUGHPUT_H

#include "backend/backend.h"
#include "bench/roofline.h"
#include "model/net.h"

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

#endif
