#include "backend/lanes.h"

#include "backend/dnn.h"

#include "tensor/wide.h"

#if WIDE_LANES == 16
#define TABLE      lanes_16
#define WINOGRAD_3 winograd_3_16
#define WINOGRAD_5 winograd_5_16
#else
#define TABLE      lanes_8
#define WINOGRAD_3 winograd_3_8
#define WINOGRAD_5 winograd_5_8
#endif

extern const struct winograd_code WINOGRAD_3, WINOGRAD_5;

const struct lanes TABLE = {
	.dense_packed = dense_packed,
	.dense_pack = dense_pack,
	.dense_forward = dense_forward,
	.imageconv_work = imageconv_work,
	.imageconv_forward = imageconv_forward,
	.imageconv_backward = imageconv_backward,
	.winograd_3 = &WINOGRAD_3,
	.winograd_5 = &WINOGRAD_5,
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
