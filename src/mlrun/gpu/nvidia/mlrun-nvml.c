/*
 * Asks NVIDIA's management library about the GPUs:
 *
 *   mlrun-nvml LIBRARY            prints one JSON object: what the GPUs are and do
 *   mlrun-nvml LIBRARY INTERVAL   prints an object every INTERVAL milliseconds, a line each, until
 *                                 nobody reads or the parent has ended
 *
 * LIBRARY is the path of libnvidia-ml.so.1. Every key is present; unknown values are null. On
 * failure it prints one line, {"error": ..., "hint": ...}, and exits 1. gpu/nvidia/nvml.c runs it.
 * It is a separate program because mlrun is linked statically and cannot load libraries, and
 * because NVML may hang or crash with a broken GPU.
 */
#include "base/base.h"
#include "base/json.h"
#include "base/nvml.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/prctl.h>

#define MIG_MAX 64 /* parts of a GPU; at most 7 in 2024 */

/* A GPU as NVML counts it. */
struct device {
	nvml_device handle;
	int error; /* why it has no handle, else NVML_SUCCESS */
	char bus_id[32];
};

struct devices {
	struct device *v;
	unsigned n;
};

/* --- saying ---------------------------------------------------------------- */

/* Print a line; steals the value. Returns 0, or -1 when nobody reads any more. */
static int put(json_t *value)
{
	int r = json_dumpf(value, stdout, JSON_COMPACT);

	json_decref(value);
	return r < 0 || putchar('\n') == EOF || fflush(stdout) != 0 ? -1 : 0;
}

static const char *words(const struct nvml *n, int code)
{
	const char *text = n->error_string ? n->error_string(code) : NULL;

	return text ? text : "an error without a name";
}

/* Common failures, in more words than NVML has. */
static const struct failure {
	int code;
	const char *what, *hint;
} failures[] = {
	{ NVML_VERSION_MISMATCH,
		"the driver's libraries and its kernel module are of different versions",
		"the driver was updated while its old kernel module is in use: reboot, or unload and load the "
		"module nvidia" },
	{ NVML_DRIVER_NOT_LOADED, "the driver's kernel module is not loaded",
		"as root: modprobe nvidia; dmesg | grep -i nvrm shows why it does not load" },
	{ NVML_NO_PERMISSION, "the GPUs may not be opened",
		"ls -l /dev/nvidia* shows for whom they are; in a job ask for one: srun --gres=gpu:1" },
	{ NVML_OPERATING_SYSTEM, "the GPUs may not be opened",
		"the job's control group keeps them from you: ask for one, srun --gres=gpu:1" },
	{ NVML_GPU_IS_LOST, "a GPU does not answer any more",
		"dmesg | grep -i xid shows why; the node needs a reboot" },
	{ NVML_RESET_REQUIRED, "a GPU needs a reset",
		"dmesg | grep -i xid shows why; as root: nvidia-smi -r" },
};

/* Returns the exit status. */
static int fail(const char *what, const char *why, const char *hint)
{
	auto_free char *text = xasprintf("%s: %s", what, why);

	put(json_pack("{s:o, s:o}", "error", mlr_json_text(text), "hint", mlr_json_text(hint)));
	return 1;
}

static int fail_code(const struct nvml *n, const char *library, int code)
{
	auto_free char *what = xasprintf("'%s'", library);

	for (size_t i = 0; i < ARRAY_LEN(failures); i++)
		if (failures[i].code == code) {
			auto_free char *why =
				xasprintf("%s (%s)", failures[i].what, words(n, code));

			return fail(what, why, failures[i].hint);
		}
	return fail(what, words(n, code), NULL);
}

/* --- what is asked ----------------------------------------------------------- */

static json_t *number(int r, unsigned long long value)
{
	return r == NVML_SUCCESS ? json_integer((json_int_t)value) : json_null();
}

static json_t *text_of(int r, char *text, size_t size)
{
	text[size - 1] = '\0';
	return mlr_json_text(r == NVML_SUCCESS ? text : NULL);
}

static void open_device(const struct nvml *n, unsigned index, struct device *d)
{
	struct nvml_pci pci = { .domain = 0 };

	d->error = n->handle(index, &d->handle);
	if (d->error == NVML_SUCCESS)
		d->error = n->pci(d->handle, &pci);
	if (d->error == NVML_SUCCESS) /* as in /sys/bus/pci */
		snprintf(d->bus_id, sizeof(d->bus_id), "%04x:%02x:%02x.0", pci.domain, pci.bus,
			pci.device);
}

static int open_devices(const struct nvml *n, struct devices *ret)
{
	int r = n->count(&ret->n);

	if (r != NVML_SUCCESS)
		return r;
	if (ret->n > 1024)
		return NVML_NOT_SUPPORTED;
	ret->v = xcalloc(ret->n ? ret->n : 1, sizeof(*ret->v));
	for (unsigned i = 0; i < ret->n; i++)
		open_device(n, i, &ret->v[i]);
	return 0;
}

/* May the job use the GPU? Others have no handle and are not reported. */
static int is_ours(const struct device *d)
{
	return d->error != NVML_NO_PERMISSION && d->error != NVML_OPERATING_SYSTEM;
}

static int is_broken(int code)
{
	return code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED;
}

/* Get the handles of a GPU's MIG devices. Returns how many. */
static unsigned mig_handles(const struct nvml *n, nvml_device gpu, nvml_device ret[MIG_MAX])
{
	unsigned current = 0, pending = 0, most = 0, found = 0;

	if (NVML_CALL(n, mig_mode, gpu, &current, &pending) != NVML_SUCCESS || !current ||
		NVML_CALL(n, mig_count, gpu, &most) != NVML_SUCCESS)
		return 0;
	for (unsigned i = 0; i < most && found < MIG_MAX; i++)
		if (NVML_CALL(n, mig_handle, gpu, i, &ret[found]) == NVML_SUCCESS)
			found++;
	return found;
}

static json_t *ask_mig(const struct nvml *n, nvml_device gpu)
{
	nvml_device handles[MIG_MAX];
	unsigned count = mig_handles(n, gpu, handles);
	json_t *list = json_array();

	for (unsigned i = 0; i < count; i++) {
		unsigned gi = 0, ci = 0;
		char uuid[96] = "";
		json_t *part = json_object();
		int r = NVML_CALL(n, uuid, handles[i], uuid, sizeof(uuid));

		json_object_set_new(part, "uuid", text_of(r, uuid, sizeof(uuid)));
		r = NVML_CALL(n, gpu_instance, handles[i], &gi);
		json_object_set_new(part, "gi", number(r, gi));
		r = NVML_CALL(n, compute_instance, handles[i], &ci);
		json_object_set_new(part, "ci", number(r, ci));
		json_array_append_new(list, part);
	}
	return list;
}

static int ask_memory(
	const struct nvml *n, nvml_device gpu, unsigned long long *used, unsigned long long *total)
{
	struct nvml_memory_v2 new = { .version = NVML_MEMORY_V2 };
	struct nvml_memory old = { 0 };
	int r = NVML_CALL(n, memory_v2, gpu, &new);

	if (r == NVML_SUCCESS) {
		*used = new.used;
		*total = new.total;
		return r;
	}
	r = NVML_CALL(n, memory, gpu, &old);
	*used = old.used;
	*total = old.total;
	return r;
}

static json_t *ask_capability(const struct nvml *n, nvml_device gpu)
{
	int major = 0, minor = 0;
	char text[32];
	int r = NVML_CALL(n, capability, gpu, &major, &minor);

	snprintf(text, sizeof(text), "%d.%d", major, minor);
	return text_of(r, text, sizeof(text));
}

struct processes {
	struct nvml_process *v;
	size_t n;
};

static void add_processes(struct processes *all, nvml_processes_fn *f, nvml_device gpu)
{
	auto_free struct nvml_process *v = NULL;
	size_t n = nvml_processes(f, gpu, &v);

	if (n == 0)
		return;
	all->v = xreallocarray(all->v, all->n + n, sizeof(*all->v));
	memcpy(all->v + all->n, v, n * sizeof(*v));
	all->n += n;
}

static int is_known(const struct nvml_process *p)
{
	return p->memory >> 63 == 0;
}

/* By pid; of repeated ones the most memory first. */
static int by_pid(const void *a, const void *b)
{
	const struct nvml_process *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (is_known(x) != is_known(y))
		return is_known(x) ? -1 : 1;
	return (x->memory < y->memory) - (x->memory > y->memory);
}

/* List each process once. Of a GPU in parts an ordinary user sees only its own parts' processes. */
static json_t *ask_processes(const struct nvml *n, nvml_device gpu)
{
	nvml_processes_fn *const kinds[] = { n->compute, n->graphics, n->mps };
	nvml_device handles[MIG_MAX + 1] = { gpu };
	unsigned count = 1 + mig_handles(n, gpu, handles + 1);
	struct processes all = { NULL, 0 };
	json_t *list = json_array();

	for (unsigned i = 0; i < count; i++)
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
			add_processes(&all, kinds[k], handles[i]);
	sort_all(all.v, all.n, by_pid);
	for (size_t i = 0; i < all.n; i++) {
		const struct nvml_process *p = &all.v[i];

		if (i > 0 && p->pid == p[-1].pid)
			continue;
		json_array_append_new(list,
			json_pack("{s:I, s:o}", "pid", (json_int_t)p->pid, "memory",
				is_known(p) ? json_integer((json_int_t)p->memory) : json_null()));
	}
	free(all.v);
	return list;
}

/* Set a key; takes the value. */
static void set(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

static void ask_facts(const struct nvml *n, nvml_device gpu, int *lost, json_t *o)
{
	char uuid[96] = "", name[96] = "";
	int brand = 0, r;

	*lost = NVML_CALL(n, uuid, gpu, uuid, sizeof(uuid));
	set(o, "uuid", text_of(*lost, uuid, sizeof(uuid)));
	r = NVML_CALL(n, name, gpu, name, sizeof(name));
	set(o, "name", text_of(r, name, sizeof(name)));
	r = NVML_CALL(n, brand, gpu, &brand);
	set(o, "brand", mlr_json_text(r == NVML_SUCCESS ? nvml_brand_name(brand) : NULL));
	set(o, "arch", ask_capability(n, gpu));
	set(o, "parts", ask_mig(n, gpu));
}

static json_t *watts(int r, unsigned milliwatts)
{
	return r == NVML_SUCCESS ? json_real(milliwatts / 1000.0) : json_null();
}

static void ask_load(const struct nvml *n, nvml_device gpu, int *lost, json_t *o)
{
	struct nvml_utilization busy = { 0, 0 };
	unsigned long long used = 0, total = 0;
	unsigned value = 0;
	int r = NVML_CALL(n, utilization, gpu, &busy);

	*lost = is_broken(*lost) ? *lost : r;
	set(o, "busy", number(r, busy.gpu));
	set(o, "memory_busy", number(r, busy.memory));
	r = ask_memory(n, gpu, &used, &total);
	*lost = is_broken(*lost) ? *lost : r;
	set(o, "memory_used", number(r, used));
	set(o, "memory_total", number(r, total));
	r = NVML_CALL(n, power, gpu, &value);
	set(o, "power", watts(r, value));
	r = NVML_CALL(n, power_limit, gpu, &value);
	set(o, "power_limit", watts(r, value));
	r = NVML_CALL(n, temperature, gpu, NVML_TEMPERATURE_GPU, &value);
	set(o, "temperature", number(r, value));
	r = NVML_CALL(n, clock, gpu, NVML_CLOCK_SM, &value);
	set(o, "clock", number(r, value));
	set(o, "processes", ask_processes(n, gpu));
}

/* Describe a device; one without a handle is broken. */
static json_t *ask_device(const struct nvml *n, const struct device *d)
{
	int lost = d->error;
	json_t *o;

	if (lost != NVML_SUCCESS)
		return json_pack("{s:n, s:o}", "bus_id", "error", mlr_json_text(words(n, lost)));
	o = json_pack("{s:s}", "bus_id", d->bus_id);
	ask_facts(n, d->handle, &lost, o);
	ask_load(n, d->handle, &lost, o);
	set(o, "error", mlr_json_text(is_broken(lost) ? words(n, lost) : NULL));
	return o;
}

static json_t *ask_all(const struct nvml *n, const struct devices *all)
{
	char driver[96] = "", cuda[32];
	int version = 0, r = NVML_CALL(n, driver_version, driver, sizeof(driver));
	json_t *o = json_object(), *gpus = json_array();

	json_object_set_new(o, "driver", text_of(r, driver, sizeof(driver)));
	r = NVML_CALL(n, cuda_version, &version);
	snprintf(cuda, sizeof(cuda), "%d.%d", version / 1000, version % 1000 / 10);
	json_object_set_new(o, "cuda", text_of(r, cuda, sizeof(cuda)));
	for (unsigned i = 0; i < all->n; i++)
		if (is_ours(&all->v[i]))
			json_array_append_new(gpus, ask_device(n, &all->v[i]));
	json_object_set_new(o, "gpus", gpus);
	return o;
}

/* --- again and again -------------------------------------------------------- */

/* Returns 0 at that time, -1 when nobody reads any more. */
static int wait_until(long long when)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	for (;;) {
		long long left = when - mlr_now_ms();

		if (left <= 0)
			return 0;
		if (poll(&out, 1, (int)left) > 0 && out.revents & (POLLERR | POLLHUP | POLLNVAL))
			return -1;
	}
}

static void watch(const struct nvml *n, const struct devices *all, long interval_ms)
{
	long long next = mlr_now_ms();

	while (put(ask_all(n, all)) == 0) {
		next += interval_ms;
		if (next < mlr_now_ms()) /* the library is slower than the interval */
			next = mlr_now_ms();
		if (wait_until(next) < 0)
			return;
	}
}

/* --- the program ------------------------------------------------------------- */

static int run(const char *library, const struct nvml *n, long interval_ms)
{
	struct devices all = { NULL, 0 };
	int status = 0, r = n->init();

	if (r != NVML_SUCCESS)
		return fail_code(n, library, r);
	r = open_devices(n, &all);
	if (r != NVML_SUCCESS)
		status = fail_code(n, library, r);
	else if (interval_ms > 0)
		watch(n, &all, interval_ms);
	else
		status = put(ask_all(n, &all)) == 0 ? 0 : 1;
	free(all.v);
	NVML_CALL(n, shutdown);
	return status;
}

/* The reader kills this program after the answer. LeakSanitizer, killed during its check at exit,
 * would report that on standard error (asan_interface.h). */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

int main(int argc, char **argv)
{
	long interval_ms = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct nvml n = { NULL };
	void *library;

	if (argc != 2 && (argc != 3 || interval_ms < 1 || interval_ms > 86400000)) {
		fprintf(stderr, "Usage: mlrun-nvml LIBRARY [MILLISECONDS]\n");
		return 2;
	}
	/* The parent ends it by a signal or the pipe. A signal that a terminal or a batch system
	 * sends to all processes would look to the parent like a failure of the library. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library || nvml_load(library, &n) < 0)
		return fail("load NVIDIA's management library",
			library ? "it lacks functions that every version has, as nvmlInit"
				: dlerror(),
			"nvidia-smi uses it as well: does that run?");
	return run(argv[1], &n, interval_ms);
}
