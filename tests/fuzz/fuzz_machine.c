/* Recorded machines. One that is read is printed and read again as the same; a refusal has
 * words. */
#include "base/error.h"
#include "gpu/profile.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpu_machine m = GPU_MACHINE_INIT, again = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *j = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL), *first, *second;

	if (!j)
		return 0;
	if (gpu_machine_from_json(j, &m, &err) < 0) {
		if (err.code != EPROTO || !*err.text)
			abort();
		json_decref(j);
		return 0;
	}
	first = gpu_machine_to_json(&m);
	if (gpu_machine_from_json(first, &again, &err) < 0)
		abort();
	second = gpu_machine_to_json(&again);
	if (!json_equal(first, second))
		abort();
	json_decref(j);
	json_decref(first);
	json_decref(second);
	gpu_machine_done(&m);
	gpu_machine_done(&again);
	return 0;
}
