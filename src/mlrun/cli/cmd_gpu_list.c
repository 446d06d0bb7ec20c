/* mlrun gpu list: lists this machine's GPUs and who may use them. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/listing.h"

#include "base/escape.h"
#include "base/json.h"
#include "gpu/gpu.h"
#include "gpu/node.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/vendor.h"

static const char doc[] = "List this machine's GPUs, their driver, and who may use them.";

/* --- JSON ----------------------------------------------------------------- */

static json_t *version_json(const struct gpu_version *v)
{
	char text[GPU_VERSION_TEXT];

	return gpu_version_is_known(v) ? json_string(gpu_version_print(v, text)) : json_null();
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *mig_json(const struct gpu_mig *g)
{
	return json_pack("{s:o, s:I, s:I, s:o, s:b}", "uuid", mlr_json_text(g->uuid), "gi",
		(json_int_t)g->gi, "ci", (json_int_t)g->ci, "nodes",
		json_pack("[o, o]", mlr_json_text(g->gi_node.path), mlr_json_text(g->ci_node.path)),
		"usable", g->gi_node.error == 0 && g->ci_node.error == 0);
}

static json_t *gpu_json(const struct gpu *g)
{
	auto_free char *users = gpu_node_users(&g->node);

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:s, s:o}",
		"vendor", gpu_vendors[g->vendor].name, "index",
		g->index < 0 ? json_null() : json_integer(g->index), "model",
		mlr_json_text(g->model), "brand", mlr_json_text(g->brand), "arch",
		version_json(&g->arch), "memory", bytes_json(g->memory), "uuid",
		mlr_json_text(g->uuid), "bus_id", mlr_json_text(g->bus_id), "node",
		mlr_json_text(g->node.path), "drm",
		MLR_JSON_LIST(i, g->n_drm, mlr_json_text(g->drm[i].path)), "usable",
		g->node.path && g->node.error == 0, "users", users, "mig",
		MLR_JSON_LIST(i, g->n_mig, mig_json(&g->mig[i])));
}

static int print_json(const struct gpu_machine *m)
{
	json_t *driver = json_pack("{s:s?, s:o, s:o, s:b, s:o}", "kind",
		gpu_driver_names[m->driver], "version", mlr_json_text(m->driver_text), "cuda",
		version_json(&m->cuda), "open", m->is_open, "refused", mlr_json_text(m->refused));

	return cli_print_json(json_pack("{s:o, s:o, s:o}", "driver", driver, "gpus",
		MLR_JSON_LIST(i, m->n_gpus, gpu_json(&m->gpus[i])), "warnings",
		mlr_json_texts(&m->warnings)));
}

/* --- for people ----------------------------------------------------------- */

static const char *known(const char *text)
{
	return text ? text : "?";
}

static void put_mig(struct listing *l, const struct gpu *g, size_t i)
{
	const struct gpu_mig *part = &g->mig[i];
	const struct gpu_node *n = part->ci_node.error ? &part->ci_node : &part->gi_node;

	listing_row(l);
	listing_cell(l, "INDEX", g->index < 0 ? NULL : xasprintf("%d:%zu", g->index, i));
	listing_cell(l, "MODEL", xasprintf("  MIG gi%u/ci%u", part->gi, part->ci));
	listing_text(l, "MEMORY", NULL, "");
	listing_text(l, "UUID", NULL, known(part->uuid));
	listing_text(l, "BUS ID", NULL, "");
	listing_text(l, "NODE", NULL, known(part->ci_node.path));
	listing_cell(l, "WHO MAY USE IT", gpu_node_users(part->ci_node.path ? n : &g->node));
}

static void put_gpu(struct listing *l, const struct gpu *g)
{
	char memory[CLI_SIZE_SIZE] = "?";

	if (g->memory)
		cli_size(g->memory, memory);
	listing_row(l);
	listing_cell(l, "INDEX", g->index < 0 ? NULL : xasprintf("%d", g->index));
	listing_text(l, "MODEL", NULL, known(g->model));
	listing_text(l, "MEMORY", NULL, memory);
	listing_text(l, "UUID", NULL, known(g->uuid));
	listing_text(l, "BUS ID", NULL, known(*g->bus_id ? g->bus_id : NULL));
	listing_text(l, "NODE", NULL, known(g->node.path));
	listing_cell(l, "WHO MAY USE IT", gpu_node_users(&g->node));
	for (size_t i = 0; i < g->n_mig; i++)
		put_mig(l, g, i);
}

static void print_driver(const struct gpu_machine *m)
{
	char cuda[GPU_VERSION_TEXT];

	if (m->driver == GPU_DRIVER_NONE || m->driver == GPU_DRIVER_TEGRA)
		return;
	printf("NVIDIA driver ");
	escape_print(stdout, m->driver_text ? m->driver_text : "(version unknown)");
	if (m->driver == GPU_DRIVER_WSL)
		printf(" of Windows (WSL)");
	if (m->is_open)
		printf(", open kernel module");
	if (gpu_version_is_known(&m->cuda))
		printf(", CUDA %s", gpu_version_print(&m->cuda, cuda));
	putchar('\n');
}

static void print_none(const struct gpu_machine *m)
{
	const char *root = gpu_root();
	int is_machine = strcmp(root, "/") == 0;

	if (m->refused) {
		cli_print_line(m->refused);
	} else if (m->driver == GPU_DRIVER_WSL) {
		puts("the GPUs are Windows', behind /dev/dxg; nvidia-smi -L lists them");
	} else {
		printf(is_machine ? "no GPU" : "no GPU below '%s'", root);
		for (int v = 0; v < GPU_VENDORS; v++)
			printf("%s nothing in %s", v ? "," : ":", gpu_vendors[v].listed_in);
		putchar('\n');
	}
}

static int print_text(const struct gpu_machine *m)
{
	struct listing l = { .as_json = 0 };

	for (size_t i = 0; i < m->n_gpus; i++)
		put_gpu(&l, &m->gpus[i]);
	print_driver(m);
	if (m->n_gpus)
		listing_write(&l, stdout);
	else
		print_none(m);
	for (size_t i = 0; i < m->warnings.n; i++)
		mlr_warning("%s", m->warnings.v[i]);
	return 0;
}

/* Ask NVIDIA's management library, which alone knows memory and the parts' UUIDs; without it the
 * rest is listed. */
static void ask_library(struct gpu_machine *m)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (m->driver != GPU_DRIVER_NVIDIA && m->driver != GPU_DRIVER_WSL)
		return;
	r = gpu_nvml_fill(m, &err);
	if (r == -ENOENT)
		mlr_log_failure(MLR_DEBUG, &err, "");
	else if (r < 0)
		strv_addf(&m->warnings, "memory is unknown: %.*s", MLR_SENTENCE(&err));
}

int cmd_gpu_list(int argc, char **argv)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct cli_listing a = { 0 };

	cli_parse_listing(argc, argv, doc, &a);
	if (gpu_machine_read_gpus(gpu_root(), &m, &err) < 0)
		return cli_fail(&err);
	ask_library(&m);
	return a.json ? print_json(&m) : print_text(&m);
}
