#include "backend/lanes.h"

#include "backend/dnn.h"

#include "tensor/wide.h"

#if WIDE_LANES == 16
#define TABLE lanes_16
#else
#define TABLE lanes_8
#endif

const struct lanes TABLE = {
	.dense_packed = dense_packed,
	.dense_pack = dense_pack,
	.dense_forward = dense_forward,
	.imageconv_work = imageconv_work,
	.imageconv_forward = imageconv_forward,
	.imageconv_backward = imageconv_backward,
	.winograd_work = winograd_work,
	.winograd_weights = winograd_weights,
	.winograd_pairs = winograd_pairs,
	.winograd_forward = winograd_forward,
	.winograd_backward = winograd_backward,
};

#if WIDE_LANES == 16
const struct lanes *lanes_find(void)
{
#if defined(__x86_64__)
	if (dnn_isa() >= DNN_AVX512 && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
		return &lanes_16;
	if (dnn_isa() >= DNN_AVX2 && __builtin_cpu_supports("avx2") &&
		__builtin_cpu_supports("fma"))
		return &lanes_8;
	return NULL;
#elif defined(__aarch64__)
	return &lanes_8;
#else
	return NULL;
#endif
}
#endif
