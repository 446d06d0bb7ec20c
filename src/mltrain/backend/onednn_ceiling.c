#include "backend/onednn_node.h"

#define SIDE  2048 /* of the matrices: beyond caches, some 0.1 s of a core with AVX-512 */
#define ALIGN 64

enum { PARTS = 4 };

struct product {
	struct dnn dnn;
	struct dnn_op op;
	void *memory[PARTS];
};

static void product_done(struct product *p)
{
	dnn_op_done(&p->op);
	for (int i = 0; i < PARTS; i++)
		free(p->memory[i]);
	dnn_done(&p->dnn);
}

/* Values differ from each other and from 0, as those of a network do; 0x3c00 to 0x3dff is the upper
 * half of floats and all of a bf16 in [0.007, 0.13). */
static void fill(uint16_t *x, size_t count)
{
	uint32_t state = 1;

	for (size_t i = 0; i < count; i++) {
		state = state * 1664525 + 1013904223; /* Numerical Recipes' generator */
		x[i] = (uint16_t)(0x3c00 | (state >> 23));
	}
}

static int give(struct product *p, int part, int arg, size_t size, struct mlr_error *err)
{
	size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;

	if (size == 0)
		return 0;
	p->memory[part] = aligned_alloc(ALIGN, rounded);
	if (!p->memory[part])
		return mlr_fail(err, ENOMEM, "no memory for a matrix of %zu bytes", rounded);
	fill(p->memory[part], rounded / sizeof(uint16_t));
	return dnn_op_bind(&p->dnn, &p->op, arg, p->memory[part], err);
}

static int prepare(struct product *p, const struct engine *e, struct mlr_error *err)
{
	static const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };

	TRY(dnn_init(&p->dnn, e->threads, err));
	TRY(dnn_square(&p->dnn, SIDE, e->dtype == DTYPE_BF16 && dnn_has_bf16(), &p->op, err));
	for (int i = 0; i < (int)ARRAY_LEN(args); i++) {
		struct dnn_format f = dnn_op_format(&p->op, args[i]);

		TRY(give(p, i, args[i], dnn_format_size(&f), err));
	}
	return give(p, PARTS - 1, DNNL_ARG_SCRATCHPAD, dnn_op_scratch(&p->op), err);
}

int onednn_ceiling(struct engine *e, int n, struct engine_ceiling *ret, struct mlr_error *err)
{
	auto_call(product_done) struct product p = { .op = { 0 } };

	TRY(prepare(&p, e, err));
	dnn_op_run(&p.dnn, &p.op);
	for (int i = 0; i < n; i++) {
		double start = mlr_now();

		dnn_op_run(&p.dnn, &p.op);
		ret[i] = (struct engine_ceiling){ .flops = 2.0 * SIDE * SIDE * SIDE,
			.flops_seconds = mlr_now() - start };
	}
	return 0;
}
