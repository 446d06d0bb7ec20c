/* mlrun.conf. Whatever it holds, values are those of settings that exist. */
#include "base/cleanup.h"
#include "base/config.h"
#include "base/strv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(config_done) struct config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (config_parse(&c, (const char *)data, size, "fuzz", &err) < 0 && !*err.text)
		abort();
	for (size_t i = 0; i < c.n; i++) {
		const struct config_value *v = &c.v[i];
		auto_strv struct strv list = STRV_INIT;

		if (!*v->value || v->line < 1 || !config_get(&c, v->section, v->key))
			abort();
		if (*v->section && strcmp(v->section, "exec") != 0 &&
			strcmp(v->section, "build") != 0 && strcmp(v->section, "mpi") != 0 &&
			strncmp(v->section, "registry ", 9) != 0)
			abort();
		config_list(&c, v->section, v->key, &list);
		if (list.n == 0 && strcmp(v->key, "additional_stores") != 0)
			abort();
	}
	return 0;
}
