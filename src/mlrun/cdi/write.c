/*
 * Writes a CDI file for other runtimes, as nvidia-ctk(1) does: the driver's files at their own
 * paths, and hooks that run NVIDIA's nvidia-cdi-hook, which makes links and the linker's cache.
 * mlrun itself never runs them (cdi/hook.h).
 */
#include "cdi/cdi.h"

#include "base/json.h"

/* 0.5.0 has hostPath and device names that begin with a digit; group ids need 0.7.0. */
#define VERSION          "0.5.0"
#define VERSION_FOR_GIDS "0.7.0"

/* The runtime then ends a hook that an image keeps busy, and the container does not start. */
#define HOOK_SECONDS 60

#define HOOK "/usr/bin/nvidia-cdi-hook" /* of nvidia-container-toolkit-base */

struct writer {
	const struct gpu_machine *m;
	char *root; /* gpu_root(); "" for "/" */
	int has_hook;
	struct strv gids; /* groups of the nodes that not everybody may open, as text */
};

/* The real path of a file below gpu_root(). */
static char *on_host(const struct writer *w, const char *path)
{
	return xasprintf("%s%s", w->root, path);
}

static void add_gid(struct writer *w, const struct gpu_node *n)
{
	auto_free char *gid = xasprintf("%u", (unsigned)n->gid);

	if (n->gid != 0 && (n->mode & 06) != 06 && (n->mode & 060) == 060 &&
		!strv_has(&w->gids, gid))
		strv_add(&w->gids, gid);
}

/* Omit a missing node: because of it a runtime would refuse the whole device. */
static void add_node(struct writer *w, json_t *nodes, const struct gpu_node *n)
{
	auto_free char *host = NULL;
	json_t *j;
	size_t i;

	if (!n->path || n->error == ENOENT || n->error == ENXIO)
		return;
	json_array_foreach(nodes, i, j)
		if (strcmp(json_string_value(json_object_get(j, "path")), n->path) == 0)
			return;
	j = json_pack("{s:o}", "path", mlr_json_text(n->path));
	host = on_host(w, n->path);
	if (*w->root)
		json_object_set_new(j, "hostPath", mlr_json_text(host));
	json_array_append_new(nodes, j);
	add_gid(w, n);
}

static void add_gpu_nodes(struct writer *w, json_t *nodes, const struct gpu *g)
{
	add_node(w, nodes, &g->node);
	for (size_t i = 0; i < g->n_drm; i++)
		add_node(w, nodes, &g->drm[i]);
}

static void add_part_nodes(
	struct writer *w, json_t *nodes, const struct gpu *g, const struct gpu_mig *part)
{
	add_node(w, nodes, &g->node);
	add_node(w, nodes, &part->gi_node);
	add_node(w, nodes, &part->ci_node);
}

/* Links named by the bus, such as pci-…-card to "../card1", as udev(7) makes them on the host. */
static void add_drm_links(json_t *args, const struct gpu *g)
{
	for (size_t i = 0; i < g->n_drm; i++) {
		const char *name = strrchr(g->drm[i].path, '/') + 1;
		const char *kind = strncmp(name, "card", 4) == 0 ? "card" : "render";

		if (!*g->bus_id || g->drm[i].error == ENOENT)
			continue;
		json_array_append_new(args, json_string("--link"));
		json_array_append_new(args,
			json_sprintf("../%s::/dev/dri/by-path/pci-%s-%s", name, g->bus_id, kind));
	}
}

/* Make an entry that runs it; takes args. It has an environment of its own: runc would give it the
 * image's, whose LD_PRELOAD would then run as root (CVE-2025-23266). */
static json_t *hook(const char *name, json_t *args)
{
	json_t *all = json_pack("[s, s]", path_base(HOOK), name);
	json_array_extend(all, args);
	json_decref(args);
	return json_pack("{s:s, s:s, s:o, s:[s], s:i}", "hookName", "createContainer", "path", HOOK,
		"args", all, "env", "PATH=/usr/bin:/bin", "timeout", HOOK_SECONDS);
}

/* Add such an entry, unless args is empty. */
static void add_hook(const struct writer *w, json_t *hooks, const char *name, json_t *args)
{
	if (w->has_hook && json_array_size(args) > 0)
		json_array_append_new(hooks, hook(name, json_incref(args)));
	json_decref(args);
}

static void add_device(
	const struct writer *w, json_t *devices, const char *name, json_t *nodes, json_t *links)
{
	json_t *edits = json_pack("{s:O}", "deviceNodes", nodes);

	if (w->has_hook && json_array_size(links) > 0)
		json_object_set_new(edits, "hooks",
			json_pack("[o]", hook("create-symlinks", json_incref(links))));
	json_array_append_new(devices,
		json_pack("{s:o, s:o}", "name", mlr_json_text(name), "containerEdits", edits));
}

/* Takes number, nodes and links. */
static void add_named(const struct writer *w, json_t *devices, char *number, const char *uuid,
	json_t *nodes, json_t *links)
{
	add_device(w, devices, number, nodes, links);
	if (uuid)
		add_device(w, devices, uuid, nodes, links);
	free(number);
	json_decref(nodes);
	json_decref(links);
}

static void add_gpu(struct writer *w, json_t *devices, const struct gpu *g)
{
	json_t *nodes = json_array(), *links = json_array();

	add_gpu_nodes(w, nodes, g);
	add_drm_links(links, g);
	add_named(w, devices, xasprintf("%d", g->index), g->uuid, nodes, links);
	for (size_t i = 0; i < g->n_mig; i++) {
		json_t *part = json_array();

		add_part_nodes(w, part, g, &g->mig[i]);
		add_named(w, devices, xasprintf("%d:%zu", g->index, i), g->mig[i].uuid, part,
			json_array());
	}
}

static int is_usable(const struct gpu *g)
{
	return g->vendor == GPU_NVIDIA && g->index >= 0;
}

static json_t *devices_of(struct writer *w)
{
	json_t *devices = json_array(), *nodes = json_array(), *links = json_array();

	/* Windows has one node for all of its GPUs. */
	for (size_t i = 0; w->m->driver == GPU_DRIVER_WSL && i < w->m->n_nodes; i++)
		add_node(w, nodes, &w->m->nodes[i]);
	for (size_t i = 0; i < w->m->n_gpus; i++) {
		const struct gpu *g = &w->m->gpus[i];

		if (!is_usable(g))
			continue;
		add_gpu(w, devices, g);
		add_gpu_nodes(w, nodes, g);
		add_drm_links(links, g);
		for (size_t k = 0; k < g->n_mig; k++)
			add_part_nodes(w, nodes, g, &g->mig[k]);
	}
	add_device(w, devices, "all", nodes, links);
	json_decref(nodes);
	json_decref(links);
	return devices;
}

/* A library's path in the container: its own, without the driver's root. */
static const char *inside(const struct writer *w, const struct gpu_file *f)
{
	size_t root = w->m->driver_root ? strlen(w->m->driver_root) : 0;

	if (f->target)
		return f->target;
	return root && strncmp(f->path, w->m->driver_root, root) == 0 && f->path[root] == '/'
		? f->path + root
		: f->path;
}

static json_t *mount_of(const struct writer *w, const struct gpu_file *f)
{
	auto_free char *host = on_host(w, f->path);
	json_t *options = f->kind == GPU_SOCKET
		? json_pack("[s, s, s, s, s]", "nosuid", "nodev", "noexec", "rbind", "rprivate")
		: json_pack("[s, s, s, s, s]", "ro", "nosuid", "nodev", "rbind", "rprivate");

	return json_pack("{s:o, s:o, s:o}", "hostPath", mlr_json_text(host), "containerPath",
		mlr_json_text(inside(w, f)), "options", options);
}

static void add_link(
	json_t *args, const char *text, const char *dir, size_t dir_len, const char *name)
{
	json_array_append_new(args, json_string("--link"));
	json_array_append_new(args, json_sprintf("%s::%.*s%s", text, (int)dir_len, dir, name));
}

/* Add the links beside a library: its SONAME, and the name that programs open. */
static void add_library_links(json_t *args, const struct gpu_file *f, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	size_t dir = (size_t)(name - path);

	if (f->soname && strcmp(f->soname, name) != 0)
		add_link(args, name, path, dir, f->soname);
	if (f->dev_link && strcmp(f->dev_link, name) != 0)
		add_link(args, f->soname ? f->soname : name, path, dir, f->dev_link);
}

static void add_folder(struct strv *folders, const char *path)
{
	auto_free char *dir = path_dir(path);

	if (!strv_has(folders, dir))
		strv_add(folders, dir);
}

static json_t *folder_args(const struct strv *folders)
{
	json_t *args = json_array();

	for (size_t i = 0; i < folders->n; i++) {
		json_array_append_new(args, json_string("--folder"));
		json_array_append_new(args, mlr_json_text(folders->v[i]));
	}
	return args;
}

/* The edits of all devices. Like nvidia-ctk, they include all firmware and sockets. */
static json_t *common_edits(struct writer *w)
{
	json_t *nodes = json_array(), *mounts = json_array(), *links = json_array(),
	       *hooks = json_array();
	auto_strv struct strv folders = STRV_INIT;

	for (size_t i = 0; i < w->m->n_nodes; i++)
		if (!strstr(w->m->nodes[i].path, "/kfd") && w->m->driver == GPU_DRIVER_NVIDIA)
			add_node(w, nodes, &w->m->nodes[i]);
	for (size_t i = 0; i < w->m->n_files; i++) {
		const struct gpu_file *f = &w->m->files[i];

		if (f->vendor != GPU_NVIDIA)
			continue;
		json_array_append_new(mounts, mount_of(w, f));
		if (f->kind == GPU_LIBRARY) {
			add_library_links(links, f, inside(w, f));
			add_folder(&folders, inside(w, f));
		}
	}
	add_hook(w, hooks, "create-symlinks", links);
	add_hook(w, hooks, "update-ldcache", folder_args(&folders));
	if (w->m->driver == GPU_DRIVER_NVIDIA && w->m->driver_text)
		add_hook(w, hooks, "enable-cuda-compat",
			json_pack("[s, o]", "--host-driver-version",
				mlr_json_text(w->m->driver_text)));
	if (w->has_hook)
		json_array_append_new(
			hooks, hook("disable-device-node-modification", json_array()));
	/* "void", or a runtime with NVIDIA's hook would inject the GPUs a second time. */
	return json_pack("{s:[s], s:o, s:o, s:o}", "env", "NVIDIA_VISIBLE_DEVICES=void",
		"deviceNodes", nodes, "mounts", mounts, "hooks", hooks);
}

static json_t *spec(struct writer *w)
{
	json_t *devices = devices_of(w), *edits = common_edits(w), *gids = json_array();

	for (size_t i = 0; i < w->gids.n; i++)
		json_array_append_new(gids, json_integer(strtoll(w->gids.v[i], NULL, 10)));
	if (w->gids.n)
		json_object_set(edits, "additionalGids", gids);
	json_decref(gids);
	return json_pack("{s:s, s:s, s:o, s:o}", "cdiVersion",
		w->gids.n ? VERSION_FOR_GIDS : VERSION, "kind", "nvidia.com/gpu", "devices",
		devices, "containerEdits", edits);
}

int cdi_spec(const struct gpu_machine *m, json_t **ret, struct mlr_error *err)
{
	auto_free char *root = realpath(gpu_root(), NULL);
	auto_free char *program = xasprintf("%s" HOOK, gpu_root());
	struct writer w = { .m = m, .has_hook = access(program, X_OK) == 0 };
	size_t n = 0;

	if (m->driver == GPU_DRIVER_TEGRA)
		return mlr_fail(err, ENOTSUP, "%s", m->refused);
	for (size_t i = 0; i < m->n_gpus; i++)
		n += is_usable(&m->gpus[i]) ? 1 : 0;
	if (n == 0 && m->driver != GPU_DRIVER_WSL) {
		mlr_fail(err, ENODEV, "no NVIDIA GPU that you may open");
		return mlr_hint(err, "`mlrun gpu list` shows the GPUs");
	}
	if (!root)
		return mlr_fail_errno(err, "'%s'", gpu_root());
	w.root = strcmp(root, "/") == 0 ? (char *)"" : root;
	if (!w.has_hook)
		mlr_warning(
			"'" HOOK
			"' of NVIDIA's container toolkit is missing: other runtimes make no "
			"links and no linker's cache, so that programs find the driver's libraries "
			"by LD_LIBRARY_PATH only");
	*ret = spec(&w);
	strv_done(&w.gids);
	return *ret ? 0 : mlr_fail(err, ENOMEM, "write a CDI file: %s", strerror(ENOMEM));
}
