#include "trainer_net.h"

#include "model/checkpoint.h"
#include "tensor/safetensors.h"

static struct net *tiny_reference_net(void)
{
	struct net *net = NULL;

	assert_int_equal(net_reference(shape3(1, 8, 8), 3, 0.5f, &net, NULL), 0);
	return net;
}

static char *names[] = { (char *)"ant", (char *)"bée", (char *)"\"cat\"\n" };

/* A checkpoint that borrows all but its blocks. */
static struct checkpoint sample(struct net *net, float *params, float *velocity)
{
	return (struct checkpoint){ .net = net,
		.params = params,
		.kept = { velocity },
		.norm = { { 127.25f }, { 63.1f } },
		.names = names,
		.backend = (char *)"reference",
		.data = (char *)"/data",
		.digest = (char *)"abc",
		.epochs_done = 3,
		.batch = 16,
		.ranks = 2,
		.threads = 5,
		.dtype = DTYPE_BF16,
		.step = 1234,
		.seed = INT64_MAX,
		.best_error = 0.1,
		.seconds = 1.5,
		.recipe = (char *)"{\"lr\":0.1}" };
}

static void a_checkpoint_brings_back_all_that_was_written(void **state)
{
	auto_call(net_free) struct net *net = tiny_reference_net();
	auto_free float *params = random_floats(1, net->params),
			*velocity = random_floats(2, net->params);
	const struct checkpoint c = sample(net, params, velocity);
	auto_call(checkpoint_done) struct checkpoint got = { 0 };

	assert_int_equal(checkpoint_write(in_test_dir("c"), &c, NULL), 0);
	assert_int_equal(checkpoint_read(in_test_dir("c"), &got, NULL), 0);
	assert_int_equal(got.net->params, net->params);
	assert_int_equal(got.net->classes, 3);
	assert_memory_equal(got.params, params, net->params * sizeof(float));
	assert_memory_equal(got.kept[0], velocity, net->params * sizeof(float));
	for (int i = 0; i < 3; i++)
		assert_string_equal(got.names[i], names[i]);
	assert_string_equal(got.backend, "reference");
	assert_string_equal(got.data, "/data");
	assert_string_equal(got.digest, "abc");
	assert_string_equal(got.recipe, "{\"lr\":0.1}");
	assert_true(got.norm.mean[0] == 127.25f && got.norm.scale[0] == 63.1f);
	assert_true(got.epochs_done == 3 && got.batch == 16 && got.ranks == 2 && got.threads == 5);
	assert_true(got.step == 1234 && got.seed == INT64_MAX && got.dtype == DTYPE_BF16);
	assert_true(got.best_error == 0.1 && got.seconds == 1.5);
}

static void every_optimisers_blocks_come_back(void **state)
{
	auto_call(net_free) struct net *net = tiny_reference_net();
	auto_free float *params = random_floats(1, net->params);

	for (int which = 0; which < OPTIMISERS; which++) {
		struct checkpoint c = sample(net, params, NULL);
		auto_call(checkpoint_done) struct checkpoint got = { 0 };
		auto_free char *recipe =
			xasprintf("{\"optimiser\": \"%s\"}", optimisers[which].name);

		c.optimiser = which;
		c.recipe = recipe;
		for (int i = 0; i < optimiser_states(which); i++)
			c.kept[i] = random_floats(2 + i, net->params);
		assert_int_equal(checkpoint_write(in_test_dir("kept"), &c, NULL), 0);
		assert_int_equal(checkpoint_read(in_test_dir("kept"), &got, NULL), 0);
		assert_int_equal(got.optimiser, which);
		for (int i = 0; i < optimiser_states(which); i++) {
			assert_memory_equal(got.kept[i], c.kept[i], net->params * sizeof(float));
			free(c.kept[i]);
		}
	}
}

static void a_checkpoint_without_velocity_or_names_is_read(void **state)
{
	auto_call(net_free) struct net *net = tiny_reference_net();
	auto_free float *params = random_floats(1, net->params);
	struct checkpoint c = sample(net, params, NULL);
	auto_call(checkpoint_done) struct checkpoint got = { 0 };

	c.names = NULL;
	c.best_error = -1;
	c.recipe = c.digest = NULL;
	assert_int_equal(checkpoint_write(in_test_dir("bare"), &c, NULL), 0);
	assert_int_equal(checkpoint_read(in_test_dir("bare"), &got, NULL), 0);
	assert_null(got.kept[0]);
	assert_null(got.names);
	assert_null(got.recipe);
	assert_null(got.digest);
	assert_true(got.best_error < 0);
}

/* As a folder data set may have them: 65535 of them, as long as a directory's name can be. */
static void a_checkpoint_of_many_classes_with_long_names_is_read(void **state)
{
	enum { CLASSES = 65535, LETTERS = 255 };
	const struct layer layers[] = { { LAYER_DENSE, "fc", .outputs = CLASSES } };
	auto_call(net_free) struct net *net = chain_net("many", shape3(1, 1, 1), layers, 1);
	auto_free float *params = random_floats(1, net->params);
	struct checkpoint c = sample(net, params, params);
	auto_call(checkpoint_done) struct checkpoint got = { 0 };
	struct mlr_error err;
	char name[LETTERS + 1];

	memset(name, 'x', LETTERS);
	name[LETTERS] = '\0';
	c.names = xcalloc(CLASSES, sizeof(*c.names));
	for (int i = 0; i < CLASSES; i++)
		c.names[i] = name;
	assert_int_equal(checkpoint_write(in_test_dir("many"), &c, NULL), 0);
	free(c.names);
	if (checkpoint_read(in_test_dir("many"), &got, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(got.names[CLASSES - 1], name);
}

/* --- what is refused --------------------------------------------------------------- */

static void assert_refused(const struct safetensors *st, int code, const char *says)
{
	auto_call(checkpoint_done) struct checkpoint got = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *buf = NULL;
	size_t len;

	assert_int_equal(safetensors_build(st, &buf, &len, NULL), 0);
	write_file("bad", buf, len);
	if (checkpoint_read(in_test_dir("bad"), &got, &err) != code || !strstr(err.text, says))
		fail_msg("%s", err.text);
	assert_non_null(strstr(err.text, "/bad'"));
	assert_null(got.net);
}

/* The eight tensors of the reference network for 1x8x8 and 3 classes, and one more, as those of the
 * network for such an input. */
static void assert_tensors_refused(size_t n, struct shape input, const char *says)
{
	auto_call(net_free) struct net *net = NULL;
	auto_call(checkpoint_meta_done) struct checkpoint_meta meta = { 0 };
	auto_free float *v = random_floats(1, 512 * 3136 + 64 * 32 * 25 + 32 * 25 + 3000);
	struct tensor t[] = { { (char *)"conv1.weight", shape4(32, 1, 5, 5), v },
		{ (char *)"conv1.bias", shape1(32), v },
		{ (char *)"conv2.weight", shape4(64, 32, 5, 5), v },
		{ (char *)"conv2.bias", shape1(64), v },
		{ (char *)"fc1.weight", shape2(512, 256), v },
		{ (char *)"fc1.bias", shape1(512), v }, { (char *)"fc2.bias", shape1(3), v },
		{ (char *)"fc2.weight", shape2(3, 512), v }, { (char *)"more", shape1(1), v } };
	struct safetensors st = { t, n };
	struct checkpoint c;

	assert_int_equal(net_reference(input, 3, 0.5f, &net, NULL), 0);
	c = sample(net, v, v);
	checkpoint_meta_make(&c, &meta);
	st.meta = meta.entries;
	st.metas = meta.n;
	assert_refused(&st, -EPROTO, says);
}

static void a_checkpoint_that_does_not_fit_its_network_is_refused_by_tensor(void **state)
{
	const struct shape small = shape3(1, 8, 8);

	assert_tensors_refused(9, small, "it holds 9 tensors where network 'convolutional' has 8");
	assert_tensors_refused(7, small, "tensor 'fc2.weight' is missing");
	assert_tensors_refused(8, shape3(1, 28, 28),
		"tensor 'fc1.weight' is 512x256 where the network needs 512x3136");
}

/* Write a good checkpoint with one metadata value changed (NULL: taken away). */
static void assert_meta_refused(const char *key, const char *value, int code, const char *says)
{
	auto_call(net_free) struct net *net = tiny_reference_net();
	auto_free float *params = random_floats(1, net->params);
	const struct checkpoint c = sample(net, params, params);
	auto_call(safetensors_done) struct safetensors st = { 0 };
	auto_free char *buf = NULL;
	size_t len, found = 0;

	assert_int_equal(checkpoint_write(in_test_dir("good"), &c, NULL), 0);
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("good"), 1 << 24, &buf, &len, NULL), 0);
	assert_int_equal(safetensors_parse(buf, len, &st, NULL), 0);
	for (size_t i = 0; i < st.metas; i++) {
		if (strcmp(st.meta[i].key, key) != 0)
			continue;
		found++;
		free(st.meta[i].value);
		st.meta[i].value = xstrdup(value ? value : "");
		if (!value)
			strcpy(st.meta[i].key, "?");
	}
	assert_int_equal(found, 1);
	assert_refused(&st, code, says);
}

#define STATE(epochs, step, batch, dtype, seconds, best)                            \
	"{\"epochs_done\":" epochs ",\"step\":" step ",\"seed\":1,\"batch\":" batch \
	",\"ranks\":1,\"threads\":1,\"dtype\":" dtype ",\"seconds\":" seconds       \
	",\"best_error\":" best "}"

static void metadata_that_cannot_be_are_refused_by_their_key(void **state)
{
	assert_meta_refused("net", NULL, -EPROTO, "its metadata lack 'net'");
	assert_meta_refused("net", "resnet", -EPROTO, "net 'metadata': line 1");
	assert_meta_refused("norm", NULL, -EPROTO, "its metadata lack 'norm'");
	assert_meta_refused("norm", "[]", -EPROTO, "'norm' is not an object");
	assert_meta_refused("norm", "{\"mean\":[1],\"mean\":[1]}", -EPROTO, "'norm' is not JSON");
	assert_meta_refused("norm", "{\"mean\":[1,2],\"scale\":[1]}", -EPROTO,
		"no mean and scale of each of 1");
	assert_meta_refused("norm", "{\"mean\":[1],\"scale\":[0]}", -EPROTO, "for 'norm'");
	assert_meta_refused("norm", "{\"mean\":[1e300],\"scale\":[1]}", -EPROTO, "for 'norm'");
	assert_meta_refused("classes", "[\"a\"]", -EPROTO, "1 classes where the network has 3");
	assert_meta_refused("classes", "[1,2,3]", -EPROTO, "are not all strings");
	assert_meta_refused("state", "{", -EPROTO, "'state' is not JSON");
	assert_meta_refused("state", STATE("-1", "1", "1", "\"f32\"", "1", "null"), -EPROTO,
		"'state': epochs_done: expected a whole number from");
	assert_meta_refused("state", STATE("0", "1.5", "1", "\"f32\"", "1", "null"), -EPROTO,
		"'state': step: expected a whole number from");
	assert_meta_refused("state", STATE("0", "1", "0", "\"f32\"", "1", "null"), -EPROTO,
		"'state': batch: expected a whole number from");
	assert_meta_refused("state", STATE("0", "1", "1", "\"f8\"", "1", "null"), -EPROTO,
		"dtype: expected a known type");
	assert_meta_refused("state", STATE("0", "1", "1", "\"f32\"", "-1", "null"), -EPROTO,
		"'state': seconds: expected a number from 0");
	assert_meta_refused("state", STATE("0", "1", "1", "\"f32\"", "1", "2"), -EPROTO,
		"'state': best_error: expected a number from 0");
}

static void tensors_that_are_no_numbers_are_refused(void **state)
{
	auto_call(net_free) struct net *net = tiny_reference_net();
	auto_free float *params = random_floats(1, net->params), *v = random_floats(1, net->params);
	const struct checkpoint c = sample(net, params, v);
	auto_call(checkpoint_done) struct checkpoint got = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	v[net->layers[0].bias_at + 3] = NAN;
	assert_int_equal(checkpoint_write(in_test_dir("nan"), &c, NULL), 0);
	assert_int_equal(checkpoint_read(in_test_dir("nan"), &got, &err), -EPROTO);
	assert_non_null(strstr(err.text, "tensor 'velocity/conv1.bias' has nan at 3"));
}

/* Damage every tensor of a file in turn: of its weights it is told, and the optimiser's are not in
 * the digest. */
static void damaged_weights_are_told_by_their_digest(void **state)
{
	auto_call(net_free) struct net *net = small_residual_net();
	auto_free float *params = random_floats(1, net->params),
			*states = random_floats(2, net->states), *v = random_floats(3, net->params);
	struct checkpoint c = sample(net, params, v);
	auto_call(safetensors_done) struct safetensors st = { 0 };
	auto_free char *buf = NULL;
	size_t len, told = 0;

	for (size_t i = 0; i < net->states; i++)
		states[i] = fabsf(states[i]);
	c.states = states;
	c.names = NULL;
	c.norm = (struct image_norm){ { 127.5f, 127.5f }, { 255, 255 } };
	assert_int_equal(checkpoint_write(in_test_dir("whole"), &c, NULL), 0);
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("whole"), 1 << 24, &buf, &len, NULL), 0);
	assert_int_equal(safetensors_parse(buf, len, &st, NULL), 0);
	for (size_t i = 0; i < st.n; i++) {
		auto_call(checkpoint_done) struct checkpoint got = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;
		char *byte = (char *)st.tensors[i].data + tensor_size(&st.tensors[i]) - 4;
		int is_weight = strchr(st.tensors[i].name, '/') == NULL;

		*byte ^= 1;
		write_file("damaged", buf, len);
		*byte ^= 1;
		assert_int_equal(checkpoint_read(in_test_dir("damaged"), &got, &err),
			is_weight ? -EBADMSG : 0);
		if (is_weight &&
			(!strstr(err.text, "/damaged'") || !strstr(err.text, "are damaged")))
			fail_msg("%s", err.text);
		told += is_weight;
	}
	assert_true(told > 10 && told < st.n);
}

/* sha256sum(1) of such bytes: 4 times 1.0f and twice 0.5f. */
static void the_digest_is_that_of_the_first_bytes(void **state)
{
	const struct layer layers[] = { { LAYER_DENSE, "fc", .outputs = 2 } };
	auto_call(net_free) struct net *net = chain_net("two", shape3(1, 1, 2), layers, 1);
	float params[6] = { 1, 1, 1, 1, 0.5f, 0.5f };
	const struct checkpoint c = { .net = net,
		.params = params,
		.norm = { { 0 }, { 1 } },
		.batch = 1,
		.ranks = 1,
		.best_error = -1 };
	auto_call(checkpoint_done) struct checkpoint got = { 0 };

	assert_int_equal(net->params, 6);
	assert_int_equal(checkpoint_write(in_test_dir("ones"), &c, NULL), 0);
	assert_int_equal(checkpoint_read(in_test_dir("ones"), &got, NULL), 0);
	assert_string_equal(got.weights,
		"sha256:359d2cd277f29c9df0df8f46a49a8a13"
		"38d68e01ae8e824b328763c7102e104a");
}

static void a_checkpoint_path_that_cannot_be_written_is_known_at_once(void **state)
{
	struct mlr_error err;

	assert_int_equal(checkpoint_probe(in_test_dir("fine"), &err), 0);
	assert_int_equal(access(in_test_dir("fine"), F_OK), -1);
	assert_int_equal(checkpoint_probe(in_test_dir("no/such/dir"), &err), -ENOENT);
	assert_non_null(strstr(err.text, "can't be written"));
	assert_int_equal(checkpoint_probe(test_dir, &err), -EINVAL);
	assert_non_null(strstr(err.text, "is a directory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_checkpoint_brings_back_all_that_was_written),
		cmocka_unit_test(every_optimisers_blocks_come_back),
		cmocka_unit_test(a_checkpoint_without_velocity_or_names_is_read),
		cmocka_unit_test(a_checkpoint_of_many_classes_with_long_names_is_read),
		cmocka_unit_test(a_checkpoint_that_does_not_fit_its_network_is_refused_by_tensor),
		cmocka_unit_test(metadata_that_cannot_be_are_refused_by_their_key),
		cmocka_unit_test(tensors_that_are_no_numbers_are_refused),
		cmocka_unit_test(damaged_weights_are_told_by_their_digest),
		cmocka_unit_test(the_digest_is_that_of_the_first_bytes),
		cmocka_unit_test(a_checkpoint_path_that_cannot_be_written_is_known_at_once),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
