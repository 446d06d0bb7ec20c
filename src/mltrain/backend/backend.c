#include "backend/backend.h"

#include "config.h"
#if HAVE_ONEDNN
#include "backend/dnn.h"
#endif

/* The CPU's backends, the fastest first. */
static const struct backend *const backends[] = {
#if HAVE_ONEDNN
	&backend_onednn,
#endif
	&backend_reference,
};

/* --- the backend `cuda`, and `auto`, which computes on a GPU if one works --- */

/* Are NVIDIA's driver and the plugin installed? Loads nothing. */
static int cuda_is_likely(void)
{
	auto_free char *path = NULL;

	/* NVIDIA's driver makes the first; Windows Subsystem for Linux has the second. */
	if (access("/dev/nvidiactl", F_OK) < 0 && access("/dev/dxg", F_OK) < 0)
		return 0;
	path = plugin_path("cuda");
	return path != NULL;
}

/* Refuse what only the CPU's backends can train. */
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
	return backends[0]->open(layers, n, config, ret, err);
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

/* --- all backends --- */

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

int backend_set_all(struct engine *e, const float *params, float *const kept[], int n,
	const float *states, struct mlr_error *err)
{
	TRY(engine_set(e, ENGINE_PARAMS, params, err));
	for (int i = 0; i < n; i++)
		TRY(engine_set(e, (enum engine_block)(ENGINE_OPTIMISER + i), kept[i], err));
	return states ? engine_set(e, ENGINE_STATES, states, err) : 0;
}
