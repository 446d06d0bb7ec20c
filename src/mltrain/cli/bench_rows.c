#include "cli/bench_rows.h"

#include "base/base.h"
#include "base/json.h"
#include "cli/mltrain.h"

void bench_result_done(struct bench_result *r)
{
	for (size_t i = 0; i < r->n_ceilings; i++)
		free(r->ceilings[i].error);
	for (size_t i = 0; i < r->n_rows; i++) {
		free(r->rows[i].error);
		free(r->rows[i].got.plan);
	}
	free(r->ceilings);
	free(r->rows);
}

static const char *use_name(enum engine_use use)
{
	return use == ENGINE_TRAINS ? "train" : "predict";
}

static const char *bound_name(enum roofline_bound bound)
{
	static const char *const names[] = { "", "products", "memory" };

	return names[bound];
}

/* --- for people ------------------------------------------------------------------------------- */

static void print_spread(const char *what, const struct spread *s, double unit, const char *name)
{
	printf("%s %.1f (%.1f..%.1f) %s", what, s->median / unit, s->min / unit, s->max / unit,
		name);
}

static void print_ceiling(const struct bench_ceiling *c)
{
	printf("roofline %s: ", dtype_name(c->dtype));
	if (c->error) {
		printf("not measured: %s\n", c->error);
		return;
	}
	if (c->roofline.has_product)
		print_spread("matrix product", &c->roofline.product, 1e9, "GFLOP/s");
	else
		printf("no library whose matrix product could be measured");
	print_spread(", copy", &c->roofline.copy, 1e9, "GB/s\n");
}

void bench_print_head(const struct bench_result *r)
{
	printf("net %s: %zu parameters, %.3f MFLOP an image forward\n", r->net->name,
		r->net->params, net_flops(r->net) / 1e6);
	printf("backend %s", r->backend);
	if (r->device[0])
		printf(" on %s", r->device);
	if (r->isa)
		printf(", %s", r->isa);
	if (r->threads)
		printf(", %d thread%s", r->threads, r->threads == 1 ? "" : "s");
	printf("; %d rounds in %g s a row\n", ROUNDS, r->seconds);
	for (size_t i = 0; i < r->n_ceilings; i++)
		print_ceiling(&r->ceilings[i]);
	printf("\n%-7s  %-5s  %6s  %10s %-23s  %9s %-21s  %9s  %-15s  %9s\n", "use", "dtype",
		"batch", "images/s", "(min..max)", "ms/batch", "(min..max)", "GFLOP/s",
		"of the roofline", "memory MB");
}

void bench_print_row(const struct bench_row *row)
{
	const struct spread *s = &row->got.step;
	char images[40], step[40], share[32] = "-";

	printf("%-7s  %-5s  %6d  ", use_name(row->use), dtype_name(row->dtype), row->batch);
	if (row->error) {
		printf("not measured: %s\n", row->error);
		return;
	}
	snprintf(images, sizeof(images), "(%.0f..%.0f)", row->batch / s->max, row->batch / s->min);
	snprintf(step, sizeof(step), "(%.3f..%.3f)", s->min * 1e3, s->max * 1e3);
	if (row->bound != BOUND_NONE)
		snprintf(share, sizeof(share), "%.0f %% %s", 100 * row->share,
			bound_name(row->bound));
	printf("%10.0f %-23s  %9.3f %-21s  %9.1f  %-15s  %9.1f\n", row->images, images,
		s->median * 1e3, step, row->flops / 1e9, share, (double)row->got.memory / 1e6);
}

void bench_print_plan(const struct bench_row *row)
{
	if (row->got.plan)
		printf("%s", row->got.plan);
}

/* --- for scripts ------------------------------------------------------------------------------ */

static json_t *spread_json(const struct spread *s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s->median, "min", s->min, "max", s->max);
}

static json_t *ceiling_json(const struct bench_ceiling *c)
{
	const struct roofline *r = &c->roofline;
	json_t *product = !c->error && r->has_product ? spread_json(&r->product) : json_null();
	json_t *copy = c->error ? json_null() : spread_json(&r->copy);

	return json_pack("{s:s, s:o, s:o, s:o}", "dtype", dtype_name(c->dtype), "product_flops",
		product, "copy_bytes", copy, "error", mlr_json_text(c->error));
}

static json_t *measured_json(const struct bench_row *row)
{
	const struct spread *s = &row->got.step;
	const struct spread images = { row->images, row->batch / s->max, row->batch / s->min };
	int bound = row->bound != BOUND_NONE;

	return json_pack("{s:o, s:o, s:I, s:f, s:o, s:o, s:I, s:o}", "images_per_second",
		spread_json(&images), "step_seconds", spread_json(s), "steps",
		(json_int_t)row->got.steps, "flops", row->flops, "bound",
		mlr_json_text(bound ? bound_name(row->bound) : NULL), "roofline_share",
		bound ? json_real(row->share) : json_null(), "memory_bytes",
		(json_int_t)row->got.memory, "plan", mlr_json_text(row->got.plan));
}

static json_t *nothing_json(void)
{
	return json_pack("{s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "images_per_second",
		"step_seconds", "steps", "flops", "bound", "roofline_share", "memory_bytes",
		"plan");
}

static json_t *row_json(const struct bench_row *row)
{
	json_t *o = json_pack("{s:s, s:s, s:i, s:o}", "use", use_name(row->use), "dtype",
		dtype_name(row->dtype), "batch", row->batch, "error", mlr_json_text(row->error));
	json_t *more = row->error ? nothing_json() : measured_json(row);

	json_object_update(o, more);
	json_decref(more);
	return o;
}

void bench_print_json(const struct bench_result *r)
{
	auto_free char *text = mlr_json_print(
		json_pack("{s:o, s:I, s:f, s:s, s:o, s:s?, s:o, s:i, s:f, s:I, s:o, s:o}", "net",
			mlr_json_text(r->net->name), "parameters", (json_int_t)r->net->params,
			"forward_flops", net_flops(r->net), "backend", r->backend, "device",
			mlr_json_text(r->device[0] ? r->device : NULL), "isa", r->isa, "threads",
			r->threads ? json_integer(r->threads) : json_null(), "rounds", ROUNDS,
			"seconds", r->seconds, "seed", (json_int_t)r->seed, "rooflines",
			MLR_JSON_LIST(i, r->n_ceilings, ceiling_json(&r->ceilings[i])), "rows",
			MLR_JSON_LIST(i, r->n_rows, row_json(&r->rows[i]))),
		JSON_INDENT(2) | JSON_REAL_PRECISION(9));

	puts(text);
}
