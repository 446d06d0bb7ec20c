/* Checks GPUs and their driver, through the room gpu. */
#include "doctor/check.h"

#include "gpu/gpu.h"
#include "gpu/node.h"
#include "gpu/vendor.h"

/* Count /dev/nvidia0 and so on, which may exist without a driver. */
static int count_nodes(const char *root)
{
	auto_free char *path = xasprintf("%s/dev", root);
	auto_dir DIR *d = opendir(path);
	int n = 0;

	for (struct dirent *e; (e = file_next(d));)
		n += strncmp(e->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)e->d_name[6]);
	return n;
}

struct count {
	size_t all, usable, denied, lacking;
	const struct gpu *closed; /* the first whose mode denies access */
};

static struct count count_gpus(const struct gpu_machine *m, enum gpu_vendor vendor)
{
	struct count c = { 0 };

	for (size_t i = 0; i < m->n_gpus; i++) {
		const struct gpu *g = &m->gpus[i];

		if (g->vendor != vendor)
			continue;
		c.all++;
		c.usable += g->index >= 0;
		c.denied += g->node.error == EPERM;
		c.lacking += g->node.error == ENOENT;
		if (g->node.error == EACCES && !c.closed)
			c.closed = g;
	}
	return c;
}

/* "3 GPUs", "3 GPUs, 1 of them this job's", to free(). */
static char *say(const struct count *c, const char *kind)
{
	auto_free char *all = xasprintf("%zu %sGPU%s", c->all, kind, c->all == 1 ? "" : "s");

	if (c->denied == 0)
		return take_ptr(&all);
	if (c->usable == 0)
		return xasprintf("%s, none of them this job's", all);
	return xasprintf("%s, %zu of them this job's", all, c->usable);
}

static void tell_closed(const struct gpu_node *n, const char *what, struct doctor_report *r)
{
	auto_free char *why = gpu_node_why(n);

	doctor_add(r, "gpu", DOCTOR_FAILURE, "%s, but %s cannot be opened", what, n->path);
	doctor_because(r, "%s", why);
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"echo 'options nvidia NVreg_DeviceFileMode=0666' >/etc/modprobe.d/nvidia-mode.conf; srun --gres=gpu:1 in a job");
}

/* Returns whether all is well, so that warnings are worth adding. */
static int look_at_nvidia(const struct gpu_machine *m, struct doctor_report *r)
{
	auto_free char *driver = xasprintf("NVIDIA driver %s",
			       m->driver_text ? m->driver_text : "(version unknown)"),
		       *gpus = NULL;
	const struct gpu_node *control = gpu_machine_node(m, "/dev/nvidiactl");
	struct count c = count_gpus(m, GPU_NVIDIA);
	char cuda[GPU_VERSION_TEXT];

	if (c.all == c.lacking) {
		doctor_add(r, "gpu", DOCTOR_FAILURE, "%s, but no /dev/nvidia0", driver);
		doctor_because(r,
			"the nodes are made when the driver is first used by root, or a job was given no GPU");
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "nvidia-modprobe -u -c=0");
		return 0;
	}
	if (control && control->error) {
		tell_closed(control, driver, r);
		return 0;
	}
	if (c.closed && c.usable == 0) {
		tell_closed(&c.closed->node, driver, r);
		return 0;
	}
	gpus = say(&c, "");
	doctor_add(r, "gpu", DOCTOR_PASS, "%s, %s%s%s", driver, gpus,
		gpu_version_is_known(&m->cuda) ? ", CUDA " : "",
		gpu_version_is_known(&m->cuda) ? gpu_version_print(&m->cuda, cuda) : "");
	return 1;
}

static void look_at_windows(const struct gpu_machine *m, struct doctor_report *r)
{
	const struct gpu_node *dxg = gpu_machine_node(m, "/dev/dxg");

	if (dxg && dxg->error)
		tell_closed(dxg, "Windows' NVIDIA driver (WSL)", r);
	else
		doctor_add(r, "gpu", DOCTOR_PASS, "Windows' NVIDIA driver (WSL)%s%s",
			m->driver_text ? " " : "", m->driver_text ? m->driver_text : "");
}

/* Check a vendor whose driver is the kernel's own. */
static int look_at_others(
	const struct gpu_machine *m, enum gpu_vendor vendor, struct doctor_report *r)
{
	const struct gpu_vendor_row *row = &gpu_vendors[vendor];
	struct count c = count_gpus(m, vendor);
	auto_free char *kind = xasprintf("%s ", row->title), *gpus = say(&c, kind), *why = NULL;

	if (c.all == 0)
		return 1;
	if (c.usable > 0 || c.denied > 0) {
		doctor_add(r, "gpu", DOCTOR_PASS, "%s", gpus);
		return 1;
	}
	doctor_add(r, "gpu", DOCTOR_FAILURE, "%s, but none can be opened", gpus);
	why = c.closed ? gpu_node_why(&c.closed->node) : NULL;
	doctor_because(r, "%s", why ? why : row->lacking);
	doctor_mend(r, DOCTOR_ADMINISTRATOR, "%s", c.closed ? row->mend_group : row->mend);
	return 0;
}

static void look_without_driver(const char *root, struct doctor_report *r)
{
	int n = count_nodes(root);

	if (n == 0)
		return;
	doctor_add(r, "gpu", DOCTOR_FAILURE, "%d GPU device node%s, but no driver", n,
		n > 1 ? "s" : "");
	doctor_because(r, "/proc/driver/nvidia/version is missing");
	doctor_mend(r, DOCTOR_ADMINISTRATOR, "modprobe nvidia && dmesg | grep -i nvrm");
}

/* Add a warning of the machine's and split off its command, as in "...: as root, nvidia-modprobe
 * -c0 -u". */
static void tell_warning(const char *text, struct doctor_report *r)
{
	static const char word[] = "as root, ";
	const char *at = strstr(text, word);
	size_t n = at ? (size_t)(at - text) : strlen(text);

	while (n > 0 && strchr(" :;,", text[n - 1]))
		n--;
	doctor_add(r, "gpu", DOCTOR_WARNING, "%.*s", (int)n, text);
	if (at)
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "%s", at + strlen(word));
}

/* Are device nodes all there is: no kernel driver and no library? */
static int is_unheard_of(const struct gpu_machine *m)
{
	return m->driver == GPU_DRIVER_NVIDIA && !m->driver_text;
}

void check_gpu(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_call(gpu_machine_done) struct gpu_machine gpus = GPU_MACHINE_INIT;
	const char *root = doctor_is_here(m) ? gpu_root() : m->root;
	struct mlr_error err = MLR_ERROR_INIT;
	size_t before = r->n;
	int well = 1;

	if (gpu_machine_read_gpus(root, &gpus, &err) < 0) {

		doctor_add(r, "gpu", DOCTOR_FAILURE, "%s", err.text);
		doctor_because(r, "nothing is known about GPUs without it");
		doctor_mend(r, DOCTOR_YOU, "ls -ld '%s' '%s/dev'", root, root);
		return;
	}
	if (gpus.driver == GPU_DRIVER_NONE || is_unheard_of(&gpus))
		look_without_driver(root, r);
	if (gpus.driver == GPU_DRIVER_TEGRA)
		doctor_add(r, "gpu", DOCTOR_WARNING, "%s", gpus.refused);
	if (gpus.driver == GPU_DRIVER_WSL)
		look_at_windows(&gpus, r);
	if (gpus.driver == GPU_DRIVER_NVIDIA && !is_unheard_of(&gpus))
		well = look_at_nvidia(&gpus, r);
	for (int v = 0; v < GPU_VENDORS; v++)
		if (v != GPU_NVIDIA)
			well = look_at_others(&gpus, (enum gpu_vendor)v, r) && well;
	well = well && !is_unheard_of(&gpus);
	/* A failure has said the same already. */
	for (size_t i = 0; well && i < gpus.warnings.n; i++)
		tell_warning(gpus.warnings.v[i], r);
	if (r->n == before)
		doctor_add(r, "gpu", DOCTOR_PASS, "no GPU here");
}
