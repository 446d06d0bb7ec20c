#include "unit.h"
#include "elf_file.h"
#include "made_machine.h"

#include "doctor/check.h"

#include <time.h>

/* What the last check found. */
static struct doctor_report r = { 0 };

static int forget(void **state)
{
	doctor_report_done(&r);
	return drop_root(state);
}

static const struct doctor_finding *find(const char *check)
{
	for (size_t i = 0; i < r.n; i++)
		if (strcmp(r.v[i].check, check) == 0)
			return &r.v[i];
	fail_msg("nothing is told of %s", check);
	return NULL;
}

static void tells(const char *check, enum doctor_verdict verdict, const char *what,
	const char *cause, const char *fix)
{
	const struct doctor_finding *f = find(check);

	assert_int_equal(f->verdict, verdict);
	if (!strstr(f->what, what))
		fail_msg("'%s' does not say '%s'", f->what, what);
	if (cause && (!f->cause || !strstr(f->cause, cause)))
		fail_msg("'%s' does not say '%s'", f->cause, cause);
	if (fix && (!f->fix || !strstr(f->fix, fix)))
		fail_msg("'%s' does not say '%s'", f->fix, fix);
	if (verdict == DOCTOR_PASS)
		assert_null(f->fix);
	else
		assert_non_null(f->fix);
}

static void finds(doctor_check check, const char *name, enum doctor_verdict verdict,
	const char *what, const char *cause, const char *fix)
{
	const struct doctor_machine m = { .root = root, .timeout_ms = 120000 };

	doctor_report_done(&r);
	check(&m, &r);
	tells(name, verdict, what, cause, fix);
}

static void an_old_kernel_is_told_by_the_calls_that_it_lacks(void **state)
{
	put("/proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n");
	finds(check_kernel, "kernel", DOCTOR_WARNING,
		"Linux 4.18.0-553.el8.x86_64 without openat2, open_tree, close_range, mount_setattr",
		"more slowly", "boot Linux 5.12");
	put("/proc/sys/kernel/osrelease", "5.11.3\n");
	finds(check_kernel, "kernel", DOCTOR_WARNING, "without mount_setattr", NULL, "boot");
	put("/proc/sys/kernel/osrelease", "5.14.0-427.el9\n");
	finds(check_kernel, "kernel", DOCTOR_PASS, "Linux 5.14.0-427.el9: openat2", NULL, NULL);
	put("/proc/sys/kernel/osrelease", "");
	finds(check_kernel, "kernel", DOCTOR_FAILURE, "cannot be read", "/proc", "mount -t proc");
}

static void the_setting_that_forbids_user_namespaces_is_named_with_its_command(void **state)
{
	put("/proc/filesystems", "nodev\tproc\n\text4\nnodev\toverlay\n");
	put("/proc/sys/user/max_user_namespaces", "15000\n");
	put("/proc/sys/user/max_mnt_namespaces", "15000\n");
	finds(check_namespaces, "userns", DOCTOR_PASS, "no setting forbids", NULL, NULL);
	tells("overlay", DOCTOR_PASS, "overlayfs", NULL, NULL);
	put("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
	finds(check_namespaces, "userns", DOCTOR_FAILURE, "no container",
		"kernel.unprivileged_userns_clone is 0",
		"echo 'kernel.unprivileged_userns_clone = 1' >/etc/sysctl.d/60-mlrun.conf && sysctl --system");
	assert_int_equal(find("userns")->who, DOCTOR_ADMINISTRATOR);
	put("/proc/sys/user/max_mnt_namespaces", "0\n");
	finds(check_namespaces, "userns", DOCTOR_FAILURE, "", "user.max_mnt_namespaces is 0",
		"user.max_mnt_namespaces = 15000");
}

static void apparmors_restriction_is_mended_by_a_profile(void **state)
{
	put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
	finds(check_namespaces, "userns", DOCTOR_FAILURE, "no container", "no AppArmor profile",
		"cat >/etc/apparmor.d/mlrun <<'END'\n");
	assert_null(strstr(find("userns")->fix, "/.."));
	assert_non_null(strstr(find("userns")->fix, "/mlrun-*} flags=(unconfined)"));
	tells("userns", DOCTOR_FAILURE, "no container", NULL,
		"\n  userns,\n}\nEND\napparmor_parser -r /etc/apparmor.d/mlrun");
	put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n");
	finds(check_namespaces, "userns", DOCTOR_PASS, "", NULL, NULL);
}

static void a_kernel_without_overlayfs_is_told(void **state)
{
	put("/proc/filesystems", "nodev\tproc\n\text4\nnodev\tmyoverlay\n");
	finds(check_namespaces, "overlay", DOCTOR_WARNING, "not in /proc/filesystems", "one tree",
		"modprobe overlay");
}

static void fuse_is_missing_closed_or_open(void **state)
{
	auto_free char *device = xasprintf("%s/dev/fuse", root);

	finds(check_fuse, "fuse", DOCTOR_WARNING, "module fuse is not loaded", "--format=layers",
		"modprobe fuse");
	put("/dev/fuse", "");
	assert_int_equal(chmod(device, 0600), 0);
	finds(check_fuse, "fuse", DOCTOR_WARNING, "mode 0600", NULL, "chmod 0666 /dev/fuse");
	assert_int_equal(chmod(device, 0666), 0);
	finds(check_fuse, "fuse", DOCTOR_PASS, "open to all", NULL, NULL);
}

static void yama_in_its_strictest_mode_takes_a_reboot(void **state)
{
	finds(check_mpi, "ptrace", DOCTOR_PASS, "may read", NULL, NULL);
	put("/proc/sys/kernel/yama/ptrace_scope", "3\n");
	finds(check_mpi, "ptrace", DOCTOR_WARNING, "ptrace_scope is 3",
		"cannot read each other's memory", "reboot");
	put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
	finds(check_mpi, "ptrace", DOCTOR_WARNING, "ptrace_scope is 1", "ask the kernel for leave",
		"kernel.yama.ptrace_scope = 0");
	put("/proc/sys/kernel/yama/ptrace_scope", "0\n");
	finds(check_mpi, "ptrace", DOCTOR_PASS, "may read", NULL, NULL);
}

static void a_gpu_needs_driver_and_nodes(void **state)
{
	static const char version[] =
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
		"GCC version:  gcc version 12.2.0\n";
	finds(check_gpu, "gpu", DOCTOR_PASS, "no GPU here", NULL, NULL);
	put("/proc/driver/nvidia/version", version);
	finds(check_gpu, "gpu", DOCTOR_FAILURE, "driver 535.104.05, but no /dev/nvidia0", NULL,
		"nvidia-modprobe");
	put("/dev/nvidia0", "");
	put("/dev/nvidia12", "");
	put("/dev/nvidiactl", "");
	finds(check_gpu, "gpu", DOCTOR_PASS, "NVIDIA driver 535.104.05, 2 GPUs", NULL, NULL);
	drop("/proc/driver");
	finds(check_gpu, "gpu", DOCTOR_FAILURE, "2 GPU device nodes, but no driver", NULL,
		"modprobe nvidia");
}

/* Add a library of NVIDIA's driver. */
static void put_library(const char *path)
{
	auto_free char *full = place(path);

	elf_file_write(full, &(struct elf_file){ .soname = "libcuda.so.1" });
}

/* Add a GPU of NVIDIA's driver. */
static void put_gpu(const char *bus, int minor)
{
	auto_free char *path = xasprintf("/proc/driver/nvidia/gpus/%s/information", bus),
		       *text = xasprintf("Model: \t\t NVIDIA H100\nDevice Minor: \t %d\n", minor);

	put(path, text);
}

static void what_is_odd_about_gpus_is_told_with_its_command(void **state)
{
	const struct doctor_finding *f;

	put("/proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n");
	put("/proc/devices", "Character devices:\n195 nvidia\n");
	put_library("/usr/lib64/libcuda.so.535.104.05");
	put_gpu("0000:18:00.0", 0);
	put_gpu("0000:2a:00.0", 1);
	put("/dev/nvidiactl", "");
	finds(check_gpu, "gpu", DOCTOR_FAILURE, "but no /dev/nvidia0", NULL, "nvidia-modprobe");
	assert_int_equal(r.n, 1);
	put("/dev/nvidia0", "");
	put("/dev/nvidia1", "");
	finds(check_gpu, "gpu", DOCTOR_PASS, "NVIDIA driver 535.104.05, 2 GPUs", NULL, NULL);
	assert_int_equal(r.n, 2);
	f = &r.v[1];
	assert_int_equal(f->verdict, DOCTOR_WARNING);
	assert_string_equal(f->what,
		"the kernel module nvidia-uvm is not loaded, without which CUDA finds no GPU");
	assert_int_equal(f->who, DOCTOR_ADMINISTRATOR);
	assert_string_equal(f->fix, "nvidia-modprobe -c0 -u");
}

static void libraries_that_do_not_fit_the_kernels_module_are_told_with_the_way_out(void **state)
{
	auto_free char *link = xasprintf("%s/usr/lib64/libcuda.so.1", root);

	put("/proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n");
	put("/proc/devices", "Character devices:\n195 nvidia\n508 nvidia-uvm\n");
	put_library("/usr/lib64/libcuda.so.550.54.15");
	assert_int_equal(symlink("libcuda.so.550.54.15", link), 0);
	put_gpu("0000:18:00.0", 0);
	put("/dev/nvidiactl", "");
	put("/dev/nvidia0", "");
	put("/dev/nvidia-uvm", "");
	finds(check_gpu, "gpu", DOCTOR_PASS, "NVIDIA driver 535.104.05", NULL, NULL);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[1].verdict, DOCTOR_WARNING);
	assert_non_null(strstr(r.v[1].what, "its libraries are those of 550.54.15"));
	assert_int_equal(r.v[1].who, DOCTOR_ADMINISTRATOR);
	assert_string_equal(r.v[1].fix,
		"modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia");
}

static void amds_gpus_are_told_as_well(void **state)
{
	put("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51110\n");
	put("/sys/class/kfd/kfd/topology/nodes/1/properties", "drm_render_minor 128\n");
	put("/dev/dri/renderD128", "");
	finds(check_gpu, "gpu", DOCTOR_FAILURE, "1 AMD GPU, but none can be opened", "/dev/kfd",
		"modprobe amdgpu");
	put("/dev/kfd", "");
	finds(check_gpu, "gpu", DOCTOR_PASS, "1 AMD GPU", NULL, NULL);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void a_look_that_hangs_is_a_finding_and_holds_up_no_other(void **state)
{
	auto_free char *dir = xasprintf("%s/proc/sys/kernel", root),
		       *pipe = xasprintf("%s/osrelease", dir);
	/* By then the others answer on a busy machine, too. */
	const struct doctor_machine m = { .root = root, .timeout_ms = 3000 };
	long start = now_ms();

	assert_int_equal(file_mkdir_p(AT_FDCWD, dir, 0755, NULL), 0);
	assert_int_equal(mkfifo(pipe, 0644), 0); /* whoever opens it waits for ever */
	doctor_look(&m, &r);
	assert_in_range(now_ms() - start, 2900, 60000);
	tells("kernel", DOCTOR_FAILURE, "no answer within 3.0 seconds", "does not answer", NULL);
	tells("overlay", DOCTOR_WARNING, "no overlayfs", NULL, NULL);
	assert_int_equal(doctor_count(&r, DOCTOR_PASS) + doctor_count(&r, DOCTOR_WARNING) +
			doctor_count(&r, DOCTOR_FAILURE),
		r.n);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, forget)
	const struct CMUnitTest tests[] = {
		TEST(an_old_kernel_is_told_by_the_calls_that_it_lacks),
		TEST(the_setting_that_forbids_user_namespaces_is_named_with_its_command),
		TEST(apparmors_restriction_is_mended_by_a_profile),
		TEST(a_kernel_without_overlayfs_is_told),
		TEST(fuse_is_missing_closed_or_open),
		TEST(yama_in_its_strictest_mode_takes_a_reboot),
		TEST(a_gpu_needs_driver_and_nodes),
		TEST(what_is_odd_about_gpus_is_told_with_its_command),
		TEST(libraries_that_do_not_fit_the_kernels_module_are_told_with_the_way_out),
		TEST(amds_gpus_are_told_as_well),
		TEST(a_look_that_hangs_is_a_finding_and_holds_up_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
