/* mltrain net: prints the description of a network, layer by layer. */
#include "cli/mltrain.h"

#include "cli/arg.h"
#include "base/json.h"
#include "model/net_file.h"
#include "optimiser/optimiser.h"

struct args {
	const char *name;
	struct net_wish wish;
	int json;
};

static const struct option_row options[] = {
	{ "json", 0, NULL, 0, "print an object instead of the table", 2, OPT(struct args, json) },
	{ 0 },
};

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "[NAME|FILE]",
	.doc = "Show a network's layers with their shapes, parameters and operations, and its recipe. Without a "
	       "name, list the networks that came with mltrain.\v"
	       "mltrain-net(5) explains how to write a description.",
	.shared = { { arg_net_rows, offsetof(struct args, wish) } },
	.operands = { OPT(struct args, name) },
	.surplus = "one network too many",
};

/* Format the kind with its sizes: "conv 5x5/2". */
static void kind_text(const struct layer *l, char *text, size_t size)
{
	const char *kind = layer_kind_name(l->kind);
	int pooled = l->kind == LAYER_MAXPOOL || l->kind == LAYER_AVGPOOL;

	if (l->kind == LAYER_DROPOUT)
		snprintf(text, size, "%s %g", kind, (double)l->rate);
	else if ((pooled && l->stride != l->size) || (l->kind == LAYER_CONV && l->stride != 1))
		snprintf(text, size, "%s %dx%d/%d", kind, l->size, l->size, l->stride);
	else if (pooled || l->kind == LAYER_CONV)
		snprintf(text, size, "%s %dx%d", kind, l->size, l->size);
	else
		snprintf(text, size, "%s", kind);
}

static void reads_text(const struct net *net, const struct layer *l, char *text, size_t size)
{
	if (l->kind == LAYER_ADD)
		snprintf(text, size, "%s + %s", net_layer_name(net, l->from),
			net_layer_name(net, l->with));
	else
		snprintf(text, size, "%s", net_layer_name(net, l->from));
}

static void print_row(int names, const char *name, const char *kind, int reads, const char *from,
	const char *out, const char *params, const char *flops)
{
	auto_free char *line = xasprintf("%-*s  %-14s  %-*s  %12s  %11s  %9s", names, name, kind,
		reads, from, out, params, flops);
	size_t len = strlen(line);

	while (len && line[len - 1] == ' ')
		len--;
	printf("%.*s\n", (int)len, line);
}

static int longer(int width, size_t len)
{
	return (int)len > width ? (int)len : width;
}

static void print_layer(const struct net *net, const struct layer *l, int names, int reads)
{
	char kind[64], from[2 * LAYER_NAME_MAX + 4], out[SHAPE_TEXT_MAX], params[32] = "",
									  flops[32] = "";

	kind_text(l, kind, sizeof(kind));
	reads_text(net, l, from, sizeof(from));
	if (l->weights)
		snprintf(params, sizeof(params), "%zu", l->weights + l->biases);
	if (net_layer_flops(l) > 0)
		snprintf(flops, sizeof(flops), "%.3f", net_layer_flops(l) / 1e6);
	print_row(names, l->name, kind, reads, from, shape_text(&l->out, out), params, flops);
}

static void print_layers(const struct net *net)
{
	char text[2 * LAYER_NAME_MAX + 4];
	int names = 4, reads = 5;

	for (size_t i = 0; i < net->n; i++) {
		reads_text(net, &net->layers[i], text, sizeof(text));
		reads = longer(reads, strlen(text));
		names = longer(names, strlen(net->layers[i].name));
	}
	print_row(names, "name", "kind", reads, "reads", "output", "parameters", "MFLOP");
	for (size_t i = 0; i < net->n; i++)
		print_layer(net, &net->layers[i], names, reads);
}

static void print_schedule(const struct schedule *s)
{
	switch (s->kind) {
	case SCHEDULE_CONSTANT:
		printf("constant");
		break;
	case SCHEDULE_EXPONENTIAL:
		printf("times %g every epoch", s->decay);
		break;
	case SCHEDULE_STEPS:
		printf("times %g after", s->decay);
		for (int i = 0; i < s->ats; i++)
			printf("%s %g", i ? "," : "", s->at[i]);
		printf(" epochs");
		break;
	case SCHEDULE_COSINE:
		printf("half a cosine down to %g of it", s->final);
		break;
	case SCHEDULE_ONE_CYCLE:
		printf("one cycle from %g of it, its top at %g of all steps, down to %g", s->start,
			s->rise, s->final);
		break;
	}
	if (s->warmup > 0)
		printf(", a warm-up of %g epochs", s->warmup);
}

static void print_recipe(const struct recipe *r)
{
	const struct augment_policy *a = &r->augment;

	printf("recipe: %d epoch%s of batches of %d, ", r->epochs, r->epochs == 1 ? "" : "s",
		r->batch);
	if (r->validation == RECIPE_VALIDATION_UNSAID)
		printf("%d images for validation, of a small data set a tenth\n",
			RECIPE_VALIDATION);
	else
		printf("%u images for validation\n", r->validation);
	printf("        rate %g, ", r->lr);
	print_schedule(&r->schedule);
	printf("; %s, momentum %g, l2 %g", optimisers[r->optimiser].name, r->momentum, r->l2);
	if (r->smoothing > 0)
		printf(", label smoothing %g", r->smoothing);
	putchar('\n');
	if (augment_is_none(a))
		return;
	printf("        images shifted by up to %d pixels, %s, ", a->shift,
		a->flip ? "flipped" : "not flipped");
	if (a->cut)
		printf("a square of %d cut out\n", a->cut);
	else
		printf("nothing cut out\n");
}

static void print_table(const struct net *net, const struct recipe *recipe)
{
	char input[SHAPE_TEXT_MAX];

	printf("%s: %s\n\n", net->name, net->about[0] ? net->about : "a network of its own");
	print_layers(net);
	printf("\ninput %s, %d classes: %zu parameters (%.1f MB), %.3f MFLOP an image forward\n",
		shape_text(&net->input, input), net->classes, net->params,
		(double)net->params * sizeof(float) / 1e6, net_flops(net) / 1e6);
	print_recipe(recipe);
}

static json_t *layer_object(const struct net *net, const struct layer *l)
{
	return json_pack("{s:s, s:s, s:s, s:s?, s:o, s:I, s:I, s:f}", "name", l->name, "kind",
		layer_kind_name(l->kind), "from", net_layer_name(net, l->from), "with",
		l->kind == LAYER_ADD ? net_layer_name(net, l->with) : NULL, "output",
		MLR_JSON_LIST(i, l->out.rank, json_integer(l->out.dim[i])), "parameters",
		(json_int_t)(l->weights + l->biases), "states", (json_int_t)l->states, "flops",
		net_layer_flops(l));
}

static void print_json(const struct net *net, const struct recipe *recipe)
{
	auto_free char *text = mlr_json_print(
		json_pack("{s:o, s:o, s:[i,i,i], s:i, s:I, s:I, s:f, s:o, s:o}", "name",
			mlr_json_text(net->name), "about",
			mlr_json_text(net->about[0] ? net->about : NULL), "input",
			net->input.dim[0], net->input.dim[1], net->input.dim[2], "classes",
			net->classes, "parameters", (json_int_t)net->params, "states",
			(json_int_t)net->states, "flops", net_flops(net), "layers",
			MLR_JSON_LIST(i, net->n, layer_object(net, &net->layers[i])), "train",
			recipe_json(recipe)),
		JSON_INDENT(2) | JSON_REAL_PRECISION(15));

	puts(text);
}

static int list(struct mlr_error *err)
{
	const struct net_wish anything = NET_WISH_ANYTHING;
	auto_strv struct strv names = net_file_names();

	for (size_t i = 0; i < names.n; i++) {
		auto_call(net_free) struct net *net = NULL;

		TRY(net_read(names.v[i], &anything, &net, NULL, err));
		printf("%-12s  %s\n", names.v[i], net->about);
	}
	return 0;
}

static int show(const struct args *a, struct mlr_error *err)
{
	auto_call(net_free) struct net *net = NULL;
	struct recipe recipe;

	TRY(net_read(a->name, &a->wish, &net, &recipe, err));
	if (a->json)
		print_json(net, &recipe);
	else
		print_table(net, &recipe);
	return 0;
}

int cmd_net(int argc, char **argv)
{
	struct args a = { .wish = NET_WISH_ANYTHING };
	struct mlr_error err = MLR_ERROR_INIT;

	options_parse("mltrain net", argc, argv, &syntax, &a);
	if ((a.name ? show(&a, &err) : list(&err)) < 0)
		return main_fail(&err);
	return 0;
}
