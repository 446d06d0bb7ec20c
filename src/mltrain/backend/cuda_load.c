/*
 * The backend `cuda`, which loads the plugin mltrain-cuda.so when an engine is opened; and `auto`,
 * which computes on a GPU if one works.
 */
#include "backend/cuda_load.h"

#include "base/log.h"
#include "backend/cuda/plugin_cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuda_is_likely(void)
{
	char *path;

	/* NVIDIA's driver makes the first; Windows Subsystem for Linux has the second. */
	if (access("/dev/nvidiactl", F_OK) < 0 && access("/dev/dxg", F_OK) < 0)
		return 0;
	path = plugin_path("cuda");
	free(path);
	return path != NULL;
}

/* What the CPU's backends alone can train. */
static int check_wishes(const struct layer *layers, size_t n, const struct engine_config *config,
	struct mlr_error *err)
{
	int is_several = config->exchange && config->exchange->ranks > 1;

	if (config->use != ENGINE_TRAINS)
		return 0;
	if (config->smoothing > 0) {
		mlr_fail(err, ENOTSUP, "backend cuda has no label smoothing");
		return mlr_hint(err, "use --label-smoothing 0, or --backend onednn");
	}
	for (size_t i = 0; is_several && i < n; i++)
		if (layers[i].own_rows) {
			mlr_fail(err, ENOTSUP,
				"layer '%s': backend cuda normalises over all ranks alone",
				layers[i].name);
			return mlr_hint(err, "use \"sync\": true, or --backend onednn");
		}
	return 0;
}

static int open_cuda(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	const struct plugin *plugin;

	TRY(check_wishes(layers, n, config, err));
	/* Load each kernel when it is launched first: a start takes half a second less. */
	setenv("CUDA_MODULE_LOADING", "LAZY", 0);
	TRY(plugin_open("cuda", &plugin, err));
	return ((const struct cuda_plugin *)plugin)->backend->open(layers, n, config, ret, err);
}

static int open_auto(const struct layer *layers, size_t n, const struct engine_config *config,
	struct engine **ret, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	char *hint;

	if (open_cuda(layers, n, config, ret, &why) == 0)
		return 0;
	hint = strchr(why.text, '\n');
	if (hint)
		*hint = '\0';
	mlr_info("not on a GPU: %s", why.text);
	return backend_of_cpu()->open(layers, n, config, ret, err);
}

/* The engine's own table, the plugin's or a CPU's, has the other functions. */
const struct backend backend_cuda = {
	.name = "cuda",
	.about = "NVIDIA's GPUs",
	.open = open_cuda,
};

const struct backend backend_auto = {
	.name = "auto",
	.about = "a GPU where there is one, else the CPU",
	.open = open_auto,
};
