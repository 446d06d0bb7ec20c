/* Networks: what is inferred and refused, and their descriptions. */
#include "trainer_net.h"

#include "model/net_file.h"
#include "model/recipe.h"

static void refused(const struct layer *layers, size_t n, const char *says)
{
	struct net *net = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	if (net_new("n", shape3(1, 8, 8), layers, n, &net, &err) != -EINVAL ||
		!strstr(err.text, says))
		fail_msg("'%s' where '%s' was to be said", err.text, says);
	assert_null(net);
}

/* One layer that reads the images, or two, the second of which reads the first. */
#define REFUSED(says, ...)                                    \
	do {                                                  \
		struct layer l_[] = { __VA_ARGS__ };          \
		for (size_t i_ = 0; i_ < ARRAY_LEN(l_); i_++) \
			l_[i_].from = (int)i_ - 1;            \
		refused(l_, ARRAY_LEN(l_), says);             \
	} while (0)
#define DENSE(...)                       \
	{                                \
		LAYER_DENSE, __VA_ARGS__ \
	}

static void a_network_that_cannot_be_is_refused_by_its_layer(void **state)
{
	refused(NULL, 0, "has no layers");
	REFUSED("network 'n': layer 1 'fc': 0 units", DENSE("fc", .outputs = 0));
	REFUSED("layer 2 'fc': the name is that of layer 1 too", DENSE("fc", .outputs = 2),
		DENSE("fc", .outputs = 2));
	REFUSED("layer 1 'c': kernel size 9 is larger than its input 1x8x8 with padding 0",
		{ LAYER_CONV, "c", .outputs = 1, .size = 9, .stride = 1 });
	REFUSED("layer 1 'c': stride 0", { LAYER_CONV, "c", .outputs = 1, .size = 3 });
	REFUSED("layer 1 'c': padding 3",
		{ LAYER_CONV, "c", .outputs = 1, .size = 3, .stride = 1, .pad = 3 });
	REFUSED("layer 2 'c': a convolution needs an image, but its input is a row of 2",
		DENSE("fc", .outputs = 2),
		{ LAYER_CONV, "c", .outputs = 1, .size = 1, .stride = 1 });
	REFUSED("layer 1 'p': window size 9 is larger than its input 1x8x8",
		{ LAYER_MAXPOOL, "p", .size = 9, .stride = 9 });
	REFUSED("layer 1 'p': stride 3; 1 to the window's size, 2, are possible",
		{ LAYER_AVGPOOL, "p", .size = 2, .stride = 3 });
	REFUSED("layer 2 'g': global pooling needs an image", DENSE("fc", .outputs = 2),
		{ LAYER_GLOBALPOOL, "g" });
	REFUSED("layer 1 'd': dropout rate 1", { LAYER_DROPOUT, "d", .rate = 1 });
	REFUSED("layer 1 'b': epsilon 0", { LAYER_BATCHNORM, "b", .momentum = 0.1f });
	REFUSED("layer 1 'b': momentum 2",
		{ LAYER_BATCHNORM, "b", .epsilon = 1e-5f, .momentum = 2 });
	REFUSED("layer 1 'fc': decay -1", DENSE("fc", .outputs = 2, .decay = -1));
	REFUSED("layer 2 'r': the last layer must be dense", DENSE("fc", .outputs = 2),
		{ LAYER_RELU, "r" });
	REFUSED("layer 1 'fc': the last layer must be dense, with at most 65535 units",
		DENSE("fc", .outputs = 65536));
	REFUSED("layer 2 'b': it has more than 1073741824 weights", DENSE("a", .outputs = 65536),
		DENSE("b", .outputs = 65536));
	REFUSED("layer 1 needs a name", DENSE("", .outputs = 2));
	REFUSED("layer 1: its name may hold", DENSE("\033[2J", .outputs = 2));
	/* Its weights would take the place of what training remembers of "fc". */
	REFUSED("layer 1: its name begins with 'velocity/'", DENSE("velocity/fc", .outputs = 2),
		DENSE("fc", .outputs = 2));
	REFUSED("layer 1 'input': the name is that of the images", DENSE("input", .outputs = 2));
}

static void a_graph_that_cannot_be_is_refused_by_its_layer(void **state)
{
	const struct layer itself[] = { DENSE("fc", 0, .outputs = 2) };
	const struct layer later[] = { { LAYER_RELU, "r", LAYER_INPUT }, { LAYER_ADD, "s", 0, 2 },
		DENSE("fc", 1, .outputs = 2) };
	const struct layer below[] = { DENSE("fc", -2, .outputs = 2) };
	const struct layer sizes[] = { { LAYER_MAXPOOL, "p", LAYER_INPUT, .size = 2, .stride = 2 },
		{ LAYER_ADD, "s", 0, LAYER_INPUT }, DENSE("fc", 1, .outputs = 2) };
	const struct layer lost[] = { { LAYER_RELU, "r", LAYER_INPUT },
		DENSE("fc", LAYER_INPUT, .outputs = 2) };

	refused(itself, 1, "layer 1 'fc': 'from' is layer 1, which does not lie before it");
	refused(below, 1, "layer 1 'fc': 'from' is layer -1,");
	refused(later, 3, "layer 2 's': 'with' is layer 3, which does not lie before it");
	refused(sizes, 3, "layer 2 's': 1x4x4 of 'p' and 1x8x8 of 'input' can't be added");
	refused(lost, 2, "layer 1 'r': no layer reads its output");
}

static void a_graph_infers_shapes_parameters_and_states(void **state)
{
	const struct layer layers[] = {
		{ LAYER_CONV, "c1", LAYER_INPUT, .outputs = 4, .size = 3, .stride = 2, .pad = 1,
			.no_bias = 1, .sigma = 1 },
		{ LAYER_BATCHNORM, "b1", 0, .epsilon = 1e-5f, .momentum = 0.1f, .bias = 7 },
		{ LAYER_CONV, "c2", LAYER_INPUT, .outputs = 4, .size = 1, .stride = 2, .sigma = 1,
			.bias = 0.5f },
		{ LAYER_ADD, "s", 1, 2 },
		{ LAYER_GLOBALPOOL, "g", 3 },
		{ LAYER_BATCHNORM, "b2", 4, .epsilon = 1e-5f, .momentum = 0.1f },
		DENSE("fc", 5, .outputs = 3),
	};
	auto_call(net_free) struct net *net = NULL;
	auto_free float *params = NULL, *states = NULL;

	assert_int_equal(net_new("n", shape3(2, 7, 8), layers, ARRAY_LEN(layers), &net, NULL), 0);
	assert_int_equal(net->layers[3].out.dim[0], 4);
	assert_int_equal(net->layers[3].out.dim[1], 4);
	assert_int_equal(net->layers[3].out.dim[2], 4);
	assert_int_equal(net->layers[4].out.rank, 1);
	/* 4*2*3*3, gamma and beta, 4*2 + 4, gamma and beta, 3*4 + 3 */
	assert_int_equal(net->params, 72 + 8 + 12 + 8 + 15);
	assert_int_equal(net->layers[0].biases, 0);
	assert_int_equal(net->layers[1].weight_at, 72);
	assert_int_equal(net->layers[1].bias_at, 76);
	assert_int_equal(net->layers[2].weight_at, 80);
	assert_int_equal(net->states, 16);
	assert_int_equal(net->layers[5].state_at, 8);
	/* twice 72 * 16 and 8 * 16 and 12 */
	assert_true(net_flops(net) == 2 * (72 * 16 + 8 * 16 + 12));

	params = xcalloc(net->params, 4);
	states = xcalloc(net->states, 4);
	net_init_params(net, 1, params);
	net_init_states(net, states);
	for (int i = 0; i < 4; i++) {
		assert_true(params[72 + i] == 1 && params[76 + i] == 0);
		assert_true(params[88 + i] == 0.5f);
		assert_true(states[8 + i] == 0 && states[12 + i] == 1);
	}
}

/* --- descriptions ----------------------------------------------------------------- */

static const struct net_wish mnist = { { 3, { 1, 28, 28, 1 } }, 10, -1 };

static int parse(const char *text, const struct net_wish *wish, struct net **net,
	struct recipe *recipe, struct mlr_error *err)
{
	return net_parse(text, strlen(text), "my.json", wish, net, recipe, err);
}

/* A description whose layers are these is refused, in these words and with this hint. */
static void layers_refused(const char *layers, const char *says, const char *hint)
{
	auto_free char *text = xasprintf("{\"layers\": [%s]}", layers);
	struct mlr_error err = MLR_ERROR_INIT;
	auto_call(net_free) struct net *net = NULL;
	auto_free char *whole = xasprintf("net 'my.json': %s", says);

	assert_int_equal(parse(text, &mnist, &net, NULL, &err), -EINVAL);
	if (strncmp(err.text, whole, strlen(whole)) != 0 || (hint && !strstr(err.text, hint)))
		fail_msg("'%s' where '%s' was to be said", err.text, whole);
	assert_null(net);
}

static void refused_text(const char *text, int code, const char *says)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct net *net = NULL;

	assert_int_equal(parse(text, &mnist, &net, NULL, &err), -code);
	if (!strstr(err.text, says))
		fail_msg("'%s' where '%s' was to be said", err.text, says);
	assert_null(net);
}

#define FC "{\"kind\": \"dense\", \"name\": \"fc\", \"outputs\": \"classes\"}"

static void a_description_makes_a_graph_with_defaults(void **state)
{
	const char *text =
		"{\"layers\": ["
		"{\"kind\": \"conv\", \"outputs\": 4, \"size\": 3, \"pad\": \"same\"},"
		"{\"kind\": \"relu\", \"name\": \"relu2\"},"
		"{\"kind\": \"relu\"},"
		"{\"kind\": \"add\", \"with\": \"relu2\"},"
		"{\"kind\": \"relu\"},"
		"{\"kind\": \"batchnorm\"},"
		"{\"kind\": \"avgpool\", \"size\": 3, \"stride\": 2},"
		"{\"kind\": \"maxpool\", \"size\": 2},"
		"{\"kind\": \"conv\", \"from\": \"maxpool1\", \"outputs\": 8, \"size\": 1,"
		" \"bias\": false, \"init\": \"xavier\", \"decay\": 0.5},"
		"{\"kind\": \"dropout\"},"
		"{\"kind\": \"globalpool\"}," FC "]}";
	auto_call(net_free) struct net *net = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct recipe recipe;
	const struct layer *l;

	if (parse(text, &mnist, &net, &recipe, &err) < 0)
		fail_msg("%s", err.text);
	l = net->layers;
	assert_string_equal(net->name, "my");
	assert_int_equal(net->classes, 10);
	assert_string_equal(l[0].name, "conv1");
	assert_true(l[0].stride == 1 && l[0].pad == 1 && l[0].from == LAYER_INPUT);
	assert_true(fabsf(l[0].sigma - sqrtf(2.0f / 9)) < 1e-6f && l[0].bias == 0);
	assert_string_equal(l[2].name, "relu3"); /* relu2 is taken */
	assert_true(l[3].from == 2 && l[3].with == 1);
	assert_string_equal(l[4].name, "relu4");
	assert_true(l[5].epsilon == 1e-5f && l[5].momentum == 0.1f && l[5].own_rows == 0);
	assert_true(l[6].stride == 2 && l[7].stride == 2);
	assert_true(l[8].no_bias && l[8].biases == 0 && l[8].decay == 0.5f);
	assert_true(fabsf(l[8].sigma - sqrtf(2.0f / (4 + 8))) < 1e-6f);
	assert_true(l[9].rate == 0.5f);
	assert_true(fabsf(l[11].sigma - sqrtf(2.0f / 8)) < 1e-6f);
	assert_true(recipe.epochs == 10 && recipe.lr == 0.01);
}

static void wishes_fill_what_a_description_leaves_out(void **state)
{
	const char *text =
		"{\"input\": {\"channels\": 3}, \"layers\": [{\"kind\": \"dropout\"}," FC "]}";
	struct net_wish wish = { { 3, { 3, 5, 7, 1 } }, 4, 0.25 };
	auto_call(net_free) struct net *net = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(parse(text, &wish, &net, NULL, NULL), 0);
	assert_true(net->input.dim[1] == 5 && net->classes == 4 && net->layers[0].rate == 0.25f);
	net_free(&net);
	wish.input.dim[0] = 1;
	assert_int_equal(parse(text, &wish, &net, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "input: 'channels' is 3, but the images have 1"));
	assert_int_equal(parse(text, NULL, &net, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "input: 'height' is not said"));
	assert_non_null(strstr(err.text, "\nhint: give the data set, or --input"));
	wish.assumed = NET_ASSUMED_INPUT;
	assert_int_equal(parse(text, &wish, &net, NULL, NULL), 0);
	assert_int_equal(net->input.dim[0], 3);
	net_free(&net);
	refused_text("{\"layers\": [{\"kind\": \"dense\", \"outputs\": 9}]}", EINVAL,
		"its last layer has 9 units, but there are 10 classes");
	wish = (struct net_wish){ .input = mnist.input, .dropout = -1 };
	assert_int_equal(parse("{\"layers\": [" FC "]}", &wish, &net, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "how many is not known"));
}

static void a_slip_in_a_layer_is_told_with_the_layer_and_the_nearest_key(void **state)
{
	layers_refused("{\"kind\": \"convo\"}",
		"layer 1: kind: expected one of conv, relu, maxpool, dense, dropout, avgpool, "
		"globalpool, batchnorm, add, found \"convo\"",
		"hint: is 'conv' meant?");
	layers_refused("{\"name\": \"x\"}", "layer 1: kind: missing: conv, relu", NULL);
	layers_refused("{\"kind\": \"relu\", \"form\": \"input\"}",
		"layer 1 'relu1': unknown key 'form'", "hint: is 'from' meant?");
	layers_refused(
		"{\"kind\": \"relu\"}, {\"kind\": \"conv\", \"name\": \"c\", \"outputs\": 1.5}",
		"layer 2 'c': outputs: expected a whole number from 0 to 2147483647, found 1.5",
		NULL);
	layers_refused(
		"{\"kind\": \"conv\", \"outputs\": 4}", "layer 1 'conv1': 'size' is missing", NULL);
	layers_refused("{\"kind\": \"dense\", \"outputs\": \"clases\"}",
		"layer 1 'dense1': outputs: expected a whole number or \"classes\", found \"clases\"",
		NULL);
	layers_refused("{\"kind\": \"conv\", \"outputs\": 4, \"size\": 2, \"pad\": \"same\"}",
		"layer 1 'conv1': 'pad' is \"same\", which needs an odd 'size', not 2", NULL);
	layers_refused("{\"kind\": \"dense\", \"outputs\": 4, \"init\": \"she\"}",
		"layer 1 'dense1': init: expected one of he, xavier, zero, found \"she\"",
		"hint: is 'he' meant?");
	layers_refused("{\"kind\": \"dense\", \"outputs\": 4, \"init\": {\"norml\": 1}}",
		"layer 1 'dense1': init: unknown key 'norml'", "hint: is 'normal' meant?");
	layers_refused("{\"kind\": \"dense\", \"outputs\": 4, \"bias\": true}",
		"layer 1 'dense1': bias: expected a number, what biases begin as, or false for none",
		NULL);
	layers_refused("{\"kind\": \"relu\", \"name\": \"block1\"}, {\"kind\": \"add\", \"with\": "
		       "\"blokc1\"}",
		"layer 2 'add1': 'with' is 'blokc1', but no layer before it has that name",
		"hint: is 'block1' meant?");
	layers_refused("{\"kind\": \"relu\", \"from\": \"relu1\"}",
		"layer 1 'relu1': 'from' is 'relu1', but no layer before it", NULL);
	layers_refused("{\"kind\": \"relu\", \"name\": \"a b\"}," FC,
		"network 'my': layer 1: its name may hold letters", NULL);
	layers_refused("{\"kind\": \"relu\", \"name\": "
		       "\"12345678901234567890123456789012\"}",
		"layer 1: name: expected a text of 1 to 31 letters", NULL);
	layers_refused("3", "layer 1 must be an object", NULL);
	layers_refused("", "'layers' must be an array of 1 to 4096 layers", NULL);
}

static void a_text_that_is_no_description_is_told_with_its_line(void **state)
{
	auto_free char *long_text = xcalloc(NET_FILE_MAX + 2, 1);
	struct net *net = NULL;

	refused_text("{\n\"layers\": [\n}", EPROTO, "net 'my.json': line 3, column 1: ");
	refused_text("{\"layers\": [], \"layers\": []}", EPROTO, "duplicate object key");
	refused_text("[]", EINVAL, "expected an object, found []");
	refused_text("{\"leyers\": []}", EINVAL, "unknown key 'leyers'\nhint: is 'layers' meant?");
	refused_text("{\"name\": \"\\u001b[2J\"}", EINVAL, "name: expected a text of 1 to 63");
	refused_text("{\"name\": \"a\\u009b2J\"}", EINVAL, "name: expected a text of 1 to 63");
	refused_text("{\"layers\": [{\"kind\": \"batchnorm\", \"sync\": 1}, " FC "]}", EINVAL,
		"sync: expected true, to normalise over all ranks, or false");
	refused_text("{\"layers\": [" FC "], \"train\": {\"lr\": \"x\"}}", EINVAL,
		"net 'my.json': train: lr: expected a number from 0 to 1e+06, found \"x\"");
	memset(long_text, ' ', NET_FILE_MAX + 1);
	assert_int_equal(parse(long_text, &mnist, &net, NULL, NULL), -EFBIG);
}

static void same_net(const struct net *a, const struct net *b)
{
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->about, b->about);
	assert_memory_equal(&a->input, &b->input, sizeof(a->input));
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->classes, b->classes);
	assert_int_equal(a->params, b->params);
	assert_int_equal(a->states, b->states);
	for (size_t i = 0; i < a->n; i++) {
		const struct layer *l = &a->layers[i], *m = &b->layers[i];

		assert_string_equal(l->name, m->name);
		assert_true(l->kind == m->kind && l->from == m->from && l->with == m->with &&
			l->outputs == m->outputs && l->size == m->size && l->stride == m->stride &&
			l->pad == m->pad && l->no_bias == m->no_bias && l->rate == m->rate &&
			l->own_rows == m->own_rows && l->epsilon == m->epsilon &&
			l->momentum == m->momentum && l->sigma == m->sigma && l->bias == m->bias &&
			l->decay == m->decay && l->weight_at == m->weight_at &&
			l->weights == m->weights && l->biases == m->biases &&
			l->state_at == m->state_at);
	}
}

static void the_reference_description_is_the_reference_network(void **state)
{
	auto_call(net_free) struct net *file = NULL, *code = NULL;
	const struct recipe want = RECIPE_INIT;
	struct recipe recipe = { 0 };

	assert_int_equal(net_read("reference", &mnist, &file, &recipe, NULL), 0);
	assert_int_equal(net_reference(mnist.input, 10, 0.5f, &code, NULL), 0);
	strcpy(code->about, file->about);
	same_net(file, code);
	assert_memory_equal(&recipe, &want, sizeof(want));
}

static void every_description_that_is_brought_can_be_read_for_small_and_large_images(void **state)
{
	static const char *const names[] = { "reference", "lenet-5", "resnet-8", "resnet-18",
		"mnist-fast" };
	const struct net_wish wishes[] = { mnist, { { 3, { 3, 32, 32, 1 } }, 100, 0.1 } };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (size_t k = 0; k < ARRAY_LEN(wishes); k++) {
			auto_call(net_free) struct net *net = NULL, *again = NULL;
			auto_free char *text = NULL;
			struct mlr_error err = MLR_ERROR_INIT;
			struct recipe recipe;

			if (net_read(names[i], &wishes[k], &net, &recipe, &err) < 0)
				fail_msg("%s", err.text);
			assert_int_equal(net->classes, wishes[k].classes);
			/* what net_text() writes needs nothing else and is the same */
			text = net_text(net);
			if (net_parse(text, strlen(text), "again", NULL, &again, NULL, &err) < 0)
				fail_msg("%s in %s", err.text, text);
			same_net(net, again);
		}
}

static void batch_norm_of_each_ranks_rows_is_written_and_read_back(void **state)
{
	auto_call(net_free) struct net *net = NULL, *again = NULL;
	auto_free char *text = NULL;
	const char *of = "{\"layers\": [{\"kind\": \"batchnorm\", \"sync\": false},"
			 "{\"kind\": \"batchnorm\", \"sync\": true}," FC "]}";

	assert_int_equal(parse(of, &mnist, &net, NULL, NULL), 0);
	assert_true(net->layers[0].own_rows && !net->layers[1].own_rows);
	text = net_text(net);
	assert_int_equal(net_parse(text, strlen(text), "again", NULL, &again, NULL, NULL), 0);
	same_net(net, again);
}

static void a_description_is_found_by_its_name_or_its_path(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *path = NULL, *own = NULL;

	assert_int_equal(net_file_find("lenet-5", &path, NULL), 0);
	assert_string_equal(path, NETS "/lenet-5.json");
	assert_int_equal(net_file_find("./x/lenet-5", &own, NULL), 0);
	assert_string_equal(own, "./x/lenet-5");
	free(own);
	assert_int_equal(net_file_find("mine.json", &own, NULL), 0);
	assert_string_equal(own, "mine.json");
	free(own);
	own = NULL;
	assert_int_equal(net_file_find("alexnet", &own, &err), -ENOENT);
	assert_non_null(strstr(err.text,
		"no net 'alexnet' came with mltrain, which has: lenet-5, "
		"mnist-fast, reference, resnet-18, resnet-8"));
	assert_non_null(strstr(err.text, "hint: a description of your own is given by its path"));
}

/* --- recipes ------------------------------------------------------------------------ */

static int parse_recipe(const char *text, struct recipe *ret, struct mlr_error *err)
{
	json_t *o = json_loads(text, 0, NULL);
	int r;

	assert_non_null(o);
	r = recipe_parse(o, ret, err);
	json_decref(o);
	return r;
}

/* 4 epochs of 10 steps. */
static void schedules_give_their_rates(void **state)
{
	static const struct {
		const char *schedule;
		struct {
			uint64_t step;
			double lr;
		} want[6];
	} table[] = {
		{ "{\"kind\": \"constant\"}", { { 0, 2 }, { 39, 2 } } },
		{ "{\"kind\": \"constant\", \"warmup\": 0.5}",
			{ { 0, 0.4 }, { 3, 1.6 }, { 4, 2 }, { 5, 2 } } },
		{ "{\"kind\": \"exponential\", \"decay\": 0.5}",
			{ { 0, 2 }, { 9, 2 }, { 10, 1 }, { 19, 1 }, { 20, 0.5 }, { 39, 0.25 } } },
		{ "{\"kind\": \"exponential\", \"decay\": 0.5, \"warmup\": 2}",
			{ { 0, 0.1 }, { 9, 1 }, { 10, 0.55 }, { 19, 1 }, { 20, 0.5 } } },
		{ "{\"kind\": \"steps\", \"at\": [1, 2.5]}",
			{ { 0, 2 }, { 9, 2 }, { 10, 0.2 }, { 24, 0.2 }, { 25, 0.02 },
				{ 39, 0.02 } } },
		{ "{\"kind\": \"cosine\", \"final\": 0.5}", { { 0, 2 }, { 13, 1.75 }, { 39, 1 } } },
		{ "{\"kind\": \"cosine\", \"warmup\": 1}",
			{ { 0, 0.2 }, { 9, 2 }, { 10, 2 }, { 39, 0 } } },
		{ "{\"kind\": \"one-cycle\", \"start\": 0.1, \"rise\": 0.3333333333333333,"
		  " \"final\": 0.5}",
			{ { 0, 0.2 }, { 13, 2 }, { 26, 1.5 }, { 39, 1 } } },
		{ "{\"kind\": \"one-cycle\", \"rise\": 0}",
			{ { 0, 2 }, { 13, 4.0 / 3 }, { 39, 0 } } },
		{ "{\"kind\": \"one-cycle\", \"rise\": 1, \"start\": 0}",
			{ { 0, 0 }, { 13, 2.0 / 3 }, { 39, 2 } } },
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		auto_free char *text =
			xasprintf("{\"lr\": 2, \"schedule\": %s}", table[i].schedule);
		struct recipe r = RECIPE_INIT;

		assert_int_equal(parse_recipe(text, &r, NULL), 0);
		for (int k = 0; k < 6 && (k == 0 || table[i].want[k].step); k++) {
			double lr = recipe_lr(&r, table[i].want[k].step, 10, 40);

			if (fabs(lr - table[i].want[k].lr) > 1e-12)
				fail_msg("%s: step %d has %.15g, not %g", table[i].schedule,
					(int)table[i].want[k].step, lr, table[i].want[k].lr);
		}
		for (uint64_t step = 0; step < 3; step++) /* runs of no length are runs */
			assert_true(isfinite(recipe_lr(&r, step, 0, step)));
	}
}

static void a_recipe_is_read_whole_and_written_again(void **state)
{
	const char *text =
		"{\"epochs\": 3, \"batch\": 7, \"lr\": 0.3, \"momentum\": 0.8, \"l2\": 0,"
		"\"schedule\": {\"kind\": \"steps\", \"decay\": 0.2, \"at\": [1, 2.5],"
		" \"warmup\": 0.5}, \"augment\": {\"shift\": 2, \"flip\": true,"
		" \"cutout\": 8}, \"validation\": 0}";
	struct recipe r = RECIPE_INIT, again = RECIPE_INIT;
	json_t *o;

	assert_int_equal(parse_recipe(text, &r, NULL), 0);
	assert_true(r.epochs == 3 && r.batch == 7 && r.lr == 0.3 && r.momentum == 0.8 && r.l2 == 0);
	assert_true(r.schedule.kind == SCHEDULE_STEPS && r.schedule.ats == 2 &&
		r.schedule.at[1] == 2.5 && r.schedule.decay == 0.2 && r.schedule.warmup == 0.5);
	assert_true(r.augment.shift == 2 && r.augment.flip && r.augment.cut == 8);
	assert_true(r.validation == 0);
	o = recipe_json(&r);
	assert_int_equal(recipe_parse(o, &again, NULL), 0);
	json_decref(o);
	assert_memory_equal(&again, &r, sizeof(r));
}

static void what_is_kept_for_validation_follows_a_small_data_set(void **state)
{
	const struct {
		uint32_t said, images, want;
	} table[] = { { RECIPE_VALIDATION_UNSAID, 60000, 5000 },
		{ RECIPE_VALIDATION_UNSAID, 50000, 5000 },
		{ RECIPE_VALIDATION_UNSAID, 49999, 4999 }, { RECIPE_VALIDATION_UNSAID, 40, 4 },
		{ RECIPE_VALIDATION_UNSAID, 9, 0 }, { 5000, 40, 5000 }, { 0, 60000, 0 } };
	struct recipe r = RECIPE_INIT;
	json_t *o;

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		r.validation = table[i].said;
		assert_int_equal(recipe_validation(&r, table[i].images), table[i].want);
	}
	r.validation = RECIPE_VALIDATION_UNSAID;
	o = recipe_json(&r);
	assert_null(json_object_get(o, "validation"));
	json_decref(o);
}

static void recipe_refused(const char *text, const char *says)
{
	struct recipe r = RECIPE_INIT;
	const struct recipe was = r;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(parse_recipe(text, &r, &err), -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("'%s' where '%s' was to be said", err.text, says);
	assert_memory_equal(&r, &was, sizeof(r));
}

static void a_slip_in_a_recipe_is_told(void **state)
{
	recipe_refused("{\"epoch\": 3}", "train: unknown key 'epoch'\nhint: is 'epochs'");
	recipe_refused(
		"{\"epochs\": 0}", "train: epochs: expected a whole number from 1 to 1000000");
	recipe_refused("{\"lr\": -1}", "train: lr: expected a number from 0 to 1e+06, found -1");
	recipe_refused("{\"schedule\": \"cosine\"}", "schedule: expected an object");
	recipe_refused("{\"schedule\": {}}", "train: schedule: kind: missing");
	recipe_refused("{\"schedule\": {\"kind\": \"cosin\"}}", "is 'cosine' meant?");
	recipe_refused("{\"schedule\": {\"kind\": \"cosine\", \"rise\": 1}}",
		"train: schedule: unknown key 'rise'");
	recipe_refused("{\"schedule\": {\"kind\": \"steps\"}}", "train: schedule: at: missing");
	recipe_refused(
		"{\"schedule\": {\"kind\": \"steps\", \"at\": [2, 1]}}", "each above the one");
	recipe_refused("{\"schedule\": {\"kind\": \"steps\", \"at\": [1,2,3,4,5,6,7,8,9]}}",
		"a list of 1 to 8 epochs");
	recipe_refused("{\"lr\": 5, \"augment\": {\"shift\": 128}}",
		"train: augment: shift: expected a whole number from 0 to 127");
	recipe_refused("{\"augment\": {\"flip\": 1}}", "flip: expected true or false, found 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_network_that_cannot_be_is_refused_by_its_layer),
		cmocka_unit_test(a_graph_that_cannot_be_is_refused_by_its_layer),
		cmocka_unit_test(a_graph_infers_shapes_parameters_and_states),
		cmocka_unit_test(a_description_makes_a_graph_with_defaults),
		cmocka_unit_test(wishes_fill_what_a_description_leaves_out),
		cmocka_unit_test(a_slip_in_a_layer_is_told_with_the_layer_and_the_nearest_key),
		cmocka_unit_test(a_text_that_is_no_description_is_told_with_its_line),
		cmocka_unit_test(the_reference_description_is_the_reference_network),
		cmocka_unit_test(
			every_description_that_is_brought_can_be_read_for_small_and_large_images),
		cmocka_unit_test(batch_norm_of_each_ranks_rows_is_written_and_read_back),
		cmocka_unit_test(a_description_is_found_by_its_name_or_its_path),
		cmocka_unit_test(schedules_give_their_rates),
		cmocka_unit_test(a_recipe_is_read_whole_and_written_again),
		cmocka_unit_test(what_is_kept_for_validation_follows_a_small_data_set),
		cmocka_unit_test(a_slip_in_a_recipe_is_told),
	};

	if (setenv("MLTRAIN_NETS", NETS, 1) < 0)
		return 1;

	return cmocka_run_group_tests(tests, NULL, NULL);
}
