#include "backend/backend.h"

#include "base/cleanup.h"
#include "config.h"
#include "backend/cuda_load.h"
#if HAVE_ONEDNN
#include "backend/dnn.h"
#endif
#include "tensor/plugin.h"

#include <errno.h>
#include <string.h>

/* The CPU's backends, the fastest first. */
static const struct backend *const backends[] = {
#if HAVE_ONEDNN
	&backend_onednn,
#endif
	&backend_reference,
};

const struct backend *backend_of_cpu(void)
{
	return backends[0];
}

const struct backend *backend_find(const char *name)
{
	if (strcmp(name, "auto") == 0)
		return cuda_is_likely() ? &backend_auto : backends[0];
	if (strcmp(name, "cuda") == 0)
		return &backend_cuda;
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	return NULL;
}

const char *backend_names(void)
{
	auto_free char *plugin = plugin_path("cuda");

#if HAVE_ONEDNN
	return plugin ? "cuda, onednn, reference" : "onednn, reference";
#else
	return plugin ? "cuda, reference (this mltrain was built without oneDNN)"
		      : "reference (this mltrain was built without oneDNN)";
#endif
}

int backend_limit_isa(const char *name, struct mlr_error *err)
{
#if HAVE_ONEDNN
	return dnn_isa_limit(name, err);
#else
	return mlr_fail(err, ENOTSUP, "'%s': this mltrain was built without oneDNN", name);
#endif
}
