/* mlrun profile: records this machine for checks elsewhere. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/json.h"
#include "config.h"
#include "doctor/doctor.h"
#include "gpu/elf.h"
#include "gpu/gpu.h"
#include "gpu/inject/ldcache.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/profile.h"
#include "gpu/root.h"

#include <sys/mman.h>
#include <sys/utsname.h>

struct args {
	struct cli_common common;
	const char *out; /* NULL or "-": standard output */
};

static const struct option_row options[] = {
	{ "output", 'o', "FILE", 0, "write it to FILE; default: standard output", 0,
		OPT(struct args, out) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc =
		"Record this machine as JSON: GPUs and their driver, the files of MPI, the findings of doctor.\v"
		"`mlrun gpu check --profile FILE` uses it elsewhere, for example on a login node.",
	.s.surplus = "expected no argument",
};

/* --- libraries ------------------------------------------------------------ */

/* Libraries of MPI, its launchers and transports, with any number after the stem. */
static const char *const stems[] = { "libmpi.so", "libmpi_cray.so", "libmpich.so", "libpmix.so",
	"libpmi.so", "libpmi2.so", "libfabric.so", "libucp.so", "libuct.so", "libibverbs.so",
	"librdmacm.so", "libmlx5.so", "libpsm2.so", "libcxi.so", "libxpmem.so", "libnccl.so",
	"librccl.so" };

struct libraries {
	json_t *list;
	char *libc; /* path of libc.so.6 */
};

static int add_library(void *ctx, const struct gpu_ldcache_entry *e)
{
	struct libraries *l = ctx;

	if (!gpu_ldcache_fits(e, 8 * (int)sizeof(void *)))
		return 0;
	if (strcmp(e->name, "libc.so.6") == 0 && !l->libc)
		l->libc = xstrdup(e->path);
	for (size_t i = 0; i < ARRAY_LEN(stems); i++)
		if (strncmp(e->name, stems[i], strlen(stems[i])) == 0)
			json_array_append_new(l->list,
				json_pack("{s:o, s:o}", "name", mlr_json_text(e->name), "path",
					mlr_json_text(e->path)));
	return 0;
}

static void read_cache(const struct gpu_dir *d, struct libraries *l)
{
	auto_close int fd = gpu_dir_open_file(d, "/etc/ld.so.cache");
	struct mlr_error err = MLR_ERROR_INIT;
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return;
	if (gpu_ldcache_walk(data, (size_t)st.st_size, add_library, l, &err) < 0)
		mlr_debug("'/etc/ld.so.cache': %s", err.text);
	munmap(data, (size_t)st.st_size);
}

/* The version of the C library: the newest that it defines. */
static json_t *glibc_of(const struct gpu_dir *d, const char *libc)
{
	auto_close int fd = libc ? gpu_dir_open_file(d, libc) : -1;
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	char text[GPU_VERSION_TEXT];

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0 || !gpu_version_is_known(&elf.defines))
		return json_null();
	return json_string(gpu_version_print(&elf.defines, text));
}

/* --- devices -------------------------------------------------------------- */

static void add_devices(const struct gpu_dir *d, const char *dir, const char *prefix, json_t *list)
{
	auto_strv struct strv names = STRV_INIT;

	gpu_dir_list(d, dir, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names.v[i]);

		if (strncmp(names.v[i], prefix, strlen(prefix)) == 0)
			json_array_append_new(list, mlr_json_text(path));
	}
}

/* Devices of InfiniBand, Slingshot, Omni-Path, and of shared memory between processes. */
static json_t *fabric_devices(const struct gpu_dir *d)
{
	static const char *const prefixes[] = { "cxi", "hfi1_", "knem", "xpmem" };
	json_t *list = json_array();

	add_devices(d, "/dev/infiniband", "", list);
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		add_devices(d, "/dev", prefixes[i], list);
	return list;
}

/* --- all ------------------------------------------------------------------ */

static json_t *doctor_json(const char *store)
{
	auto_call(doctor_report_done) struct doctor_report r = { 0 };
	struct doctor_machine m = DOCTOR_MACHINE_INIT;

	m.store = store;
	doctor_look(&m, &r);
	return doctor_to_json(&r);
}

static int gpu_json(json_t **ret, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error why = MLR_ERROR_INIT;

	TRY(gpu_machine_read(gpu_root(), &m, err));
	if ((m.driver == GPU_DRIVER_NVIDIA || m.driver == GPU_DRIVER_WSL) &&
		gpu_nvml_fill(&m, &why) < 0)
		strv_addf(&m.warnings, "memory and architecture are not known: %.*s",
			MLR_SENTENCE(&why));
	*ret = gpu_machine_to_json(&m);
	return 0;
}

static int record(const struct args *a, json_t **ret, struct mlr_error *err)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct libraries l = { NULL, NULL };
	char date[CLI_TIME_SIZE];
	struct utsname host;
	json_t *gpu;

	TRY(mlr_result(err, gpu_dir_open(gpu_root(), &d), "'%s'", gpu_root()));
	TRY(gpu_json(&gpu, err));
	l.list = json_array();
	read_cache(&d, &l);
	uname(&host);
	mlr_time_utc(time(NULL), date);
	*ret = json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "format",
		GPU_PROFILE_FORMAT, "mlrun", PACKAGE_VERSION, "date", date, "host",
		mlr_json_text(host.nodename), "kernel", mlr_json_text(host.release), "architecture",
		mlr_json_text(host.machine), "glibc", glibc_of(&d, l.libc), "gpu", gpu, "fabric",
		"libraries", l.list, "devices", fabric_devices(&d), "doctor",
		doctor_json(a->common.store));
	free(l.libc);
	return 0;
}

int cmd_profile(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };
	json_t *j = NULL;
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	if (record(&a, &j, &err) < 0)
		return cli_fail_at(&err, "profile");
	if (!a.out || strcmp(a.out, "-") == 0)
		return cli_print_json(j);
	r = cli_write_json(a.out, j, JSON_ENSURE_ASCII | JSON_INDENT(1), &err);
	json_decref(j);
	if (r < 0)
		return cli_fail_at(&err, "profile");
	return 0;
}
