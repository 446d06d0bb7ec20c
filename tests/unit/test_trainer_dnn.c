/*
 * What cuDNN itself says of our graphs: the library, where it is installed, prepares each for an
 * H200 that need not be here. Nothing is run.
 */
#include "backend/cuda/libraries/conv_dnn.h"
#include "trainer_test.h"

#define WORKSPACE ((size_t)64 << 20)

static const char h200[] =
	"{\"cudaDeviceId\":0,\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,"
	"\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
	"\"regsPerBlock\":65536,\"totalGlobalMem\":150000000000,\"multiProcessorCount\":132,"
	"\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
	"\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
	"\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
	"\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
	"\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,"
	"\"supportCoopLaunch\":1}";

/* The reference network's, one of resnet-8's, and one of sizes that fit no vector; with a bias and
 * ReLU, without, with a bias alone. */
static const struct conv_shape shapes[] = {
	{ CONV_FORWARD, 64, 28, 28, 1, 32, 5, 1, 2, 28, 28, DTYPE_F32, 1, 1, 0 },
	{ CONV_FORWARD, 64, 14, 14, 32, 64, 5, 1, 2, 14, 14, DTYPE_F32, 1, 1, 0 },
	{ CONV_FORWARD, 64, 16, 16, 32, 64, 3, 2, 1, 8, 8, DTYPE_F32, 0, 0, 0 },
	{ CONV_FORWARD, 5, 9, 10, 7, 18, 5, 2, 2, 5, 5, DTYPE_F32, 1, 0, 0 },
};

static int prepared(struct conv_shape s, enum conv_what what, enum dtype dtype, int deterministic)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct conv_dnn *c = NULL;
	int r;

	s.what = what;
	s.dtype = dtype;
	s.deterministic = deterministic;
	s.bias = s.bias && what == CONV_FORWARD;
	s.relu = s.relu && what == CONV_FORWARD;
	r = conv_dnn_new(&s, WORKSPACE, &c, &err);
	conv_dnn_free(&c);
	if (r < 0 && r != -ENOTSUP)
		fail_msg("%s", err.text);
	return r;
}

static void every_graph_has_an_engine_that_is_not_compiled_first(void **state)
{
	static const enum dtype dtypes[] = { DTYPE_BF16, DTYPE_TF32, DTYPE_F32 };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (size_t t = 0; t < 3; t++)
			for (int d = 0; d < 2; d++)
				for (int what = CONV_FORWARD; what <= CONV_WEIGHTS; what++)
					assert_int_equal(prepared(shapes[i], (enum conv_what)what,
								 dtypes[t], d),
						0);
}

/* Else product_does_relu() has no use. */
static void relu_without_a_bias_has_none(void **state)
{
	struct conv_shape s = shapes[1];

	s.bias = 0;
	assert_int_equal(prepared(s, CONV_FORWARD, DTYPE_BF16, 0), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_graph_has_an_engine_that_is_not_compiled_first),
		cmocka_unit_test(relu_without_a_bias_has_none),
	};
	struct mlr_error err = MLR_ERROR_INIT;
	int r = conv_dnn_open_described(h200, &err);

	if (r < 0) {
		printf("1..0 # SKIP %s\n", err.text);
		return r == -ENOENT ? 0 : 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
