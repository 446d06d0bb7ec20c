/* Prints the measurements of mltrain bench for people or as JSON. */
#ifndef MLT_BENCH_ROWS_H
#define MLT_BENCH_ROWS_H

#include "bench/roofline.h"
#include "bench/throughput.h"

/* The machine's limits with one dtype. */
struct bench_ceiling {
	enum dtype dtype;
	char *error; /* owned; why it was not measured, or NULL */
	struct roofline roofline;
};

/* One batch size in one dtype, trained or predicted. */
struct bench_row {
	enum engine_use use;
	enum dtype dtype;
	int batch;
	char *error; /* owned; why it was not measured, or NULL: then all below holds */
	struct throughput got;
	double images, flops; /* per second, by the median */
	enum roofline_bound bound;
	double share; /* of the roofline, in [0, 1]; 0 with BOUND_NONE */
};

struct bench_result {
	const struct net *net;
	char backend[32], device[64];
	int threads;     /* 0: on a GPU */
	const char *isa; /* of the CPU, the engine's; or NULL */
	double seconds;
	uint64_t seed;
	struct bench_ceiling *ceilings;
	size_t n_ceilings;
	struct bench_row *rows;
	size_t n_rows;
};

void bench_result_done(struct bench_result *r);

/* Print what comes before the rows; a row once it is measured; its memory plan. */
void bench_print_head(const struct bench_result *r);
void bench_print_row(const struct bench_row *row);
void bench_print_plan(const struct bench_row *row);

/* Print everything as one JSON object. */
void bench_print_json(const struct bench_result *r);

#endif
