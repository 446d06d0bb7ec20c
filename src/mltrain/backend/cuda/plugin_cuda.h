/* What the plugin mltrain-cuda.so shows: the symbol mltrain_cuda (tensor/plugin.h). */
#ifndef MLT_BACKEND_CUDA_PLUGIN_CUDA_H
#define MLT_BACKEND_CUDA_PLUGIN_CUDA_H

#include "backend/backend.h"
#include "tensor/plugin.h"

struct cuda_plugin {
	struct plugin plugin;
	const struct backend *backend;
};

#endif
