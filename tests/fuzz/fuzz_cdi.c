/* CDI files, as JSON and as YAML. What is taken is whole. */
#include "base/yaml.h"
#include "base/cleanup.h"
#include "cdi/spec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_edits(const struct cdi_edits *e)
{
	for (size_t i = 0; i < e->env.n; i++)
		if (!strchr(e->env.v[i], '='))
			abort();
	for (size_t i = 0; i < e->n_nodes; i++)
		if (!e->nodes[i].path || e->nodes[i].major < -1)
			abort();
	for (size_t i = 0; i < e->n_mounts; i++)
		if (!e->mounts[i].host_path || !e->mounts[i].container_path)
			abort();
	for (size_t i = 0; i < e->n_hooks; i++)
		if (!e->hooks[i].name || !e->hooks[i].path)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(cdi_spec_done) struct cdi_spec s = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	json_auto_t *value = NULL;

	if (mlr_yaml_load((const char *)data, size, MLR_YAML_TYPES, NULL, &value, &err) < 0 &&
		!*err.text)
		abort();
	if (cdi_spec_parse((const char *)data, size, &s, &err) < 0) {
		if (!*err.text)
			abort();
		return 0;
	}
	if (!s.kind || s.n_devices == 0)
		abort();
	check_edits(&s.edits);
	for (size_t i = 0; i < s.n_devices; i++) {
		if (!cdi_is_device(s.devices[i].name))
			abort();
		check_edits(&s.devices[i].edits);
	}
	return 0;
}
