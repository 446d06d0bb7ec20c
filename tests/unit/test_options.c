#include "unit.h"
#include "base/machine.h"
#include "exec/parts.h"
#include "exec/users_mounts.h"
#include "oci/platform.h"

#include <sys/utsname.h>

typedef int (*planner)(const char *text, struct plan *p, struct mlr_error *err);

/* Plans one text and gives the mount that it adds, until the next. */
static const struct plan_mount *plan_one(planner f, const char *text)
{
	static struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;

	plan_done(&p);
	plan_init(&p);
	if (f(text, &p, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(p.n_mounts, 1);
	return &p.mounts[0];
}

static void refuse(planner f, const char *text, int code, const char *why)
{
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;

	plan_init(&p);
	assert_int_equal(f(text, &p, &err), -code);
	if (!strstr(err.text, why))
		fail_msg("'%s' is not in '%s'", why, err.text);
	if (!strstr(err.text, text))
		fail_msg("'%s' does not name '%s'", err.text, text);
	assert_int_equal(p.n_mounts, 0);
}

static void expect_mount(const char *text, enum plan_kind kind, const char *source,
	const char *target, unsigned flags)
{
	const struct plan_mount *m = plan_one(mount_spec_plan, text);

	assert_int_equal(m->kind, kind);
	if (source)
		assert_string_equal(m->source, source);
	else
		assert_null(m->source);
	assert_string_equal(m->target, target);
	assert_int_equal(m->flags, flags);
}

static void a_mount_is_read_in_dockers_words(void **state)
{
	expect_mount("type=bind,source=/usr,destination=/d", PLAN_BIND, "/usr", "/d", 0);
	expect_mount("type=bind,src=/usr,dst=/d,readonly", PLAN_BIND, "/usr", "/d", PLAN_READONLY);
	expect_mount("src=/usr,target=/d,ro=true,nosuid,nodev", PLAN_BIND, "/usr", "/d",
		PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV);
	expect_mount("TYPE=bind,Source=/usr,dst=/d,ro=0", PLAN_BIND, "/usr", "/d", 0);
	expect_mount(
		"dst=/d,src=/usr,bind-propagation=rslave,relabel=shared,bind-recursive=enabled",
		PLAN_BIND, "/usr", "/d", 0);
	expect_mount("type=overlay,src=/usr,dst=/d", PLAN_OVERLAY, "/usr", "/d", 0);
	expect_mount("type=tmpfs,dst=/d,noexec", PLAN_TMPFS, NULL, "/d", PLAN_NOEXEC);
}

static void a_quoted_field_may_hold_commas_and_quotes(void **state)
{
	char dir[] = "/tmp/mlr-test-opt.XXXXXX";
	auto_free char *odd = NULL, *text = NULL;

	assert_non_null(mkdtemp(dir));
	odd = xasprintf("%s/a,b\"c", dir);
	text = xasprintf("type=bind,\"src=%s/a,b\"\"c\",dst=/d", dir);
	assert_int_equal(mkdir(odd, 0700), 0);
	expect_mount(text, PLAN_BIND, odd, "/d", 0);
	rmdir(odd);
	rmdir(dir);
}

static void a_tmpfs_mounts_options_reach_the_kernel(void **state)
{
	assert_string_equal(
		plan_one(mount_spec_plan, "type=tmpfs,dst=/d,tmpfs-size=64m,tmpfs-mode=0700")
			->options,
		"mode=1777,size=64m,mode=700");
	assert_string_equal(plan_one(tmpfs_plan, "/d")->options, "mode=1777");
	assert_string_equal(plan_one(tmpfs_plan, "/d:rw,size=65536k,nr_inodes=9,noexec")->options,
		"mode=1777,size=65536k,nr_inodes=9");
	assert_int_equal(
		plan_one(tmpfs_plan, "/d:rw,size=65536k,nr_inodes=9,noexec")->flags, PLAN_NOEXEC);
}

static void a_wrong_mount_is_refused_with_the_reason(void **state)
{
	refuse(mount_spec_plan, "type=volume,src=a,dst=/b", ENOTSUP, "mlrun has no named volumes");
	refuse(mount_spec_plan, "type=huh,dst=/b", EINVAL, "use bind, tmpfs or overlay");
	refuse(mount_spec_plan, "type=bind,src=/usr", EINVAL, "destination=DST is missing");
	refuse(mount_spec_plan, "type=bind,dst=/b", EINVAL, "source=SRC is missing");
	refuse(mount_spec_plan, "type=tmpfs,src=/usr,dst=/b", EINVAL, "a tmpfs has no source");
	refuse(mount_spec_plan, "type=tmpfs,dst=/b,tmpfs-size=lots", EINVAL,
		"size takes a size such as 512m, 2g or 50%, not 'lots'");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=/b,tmpfs-size=1m", EINVAL,
		"'tmpfs-size' is for type=tmpfs, not for type=bind");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=/b,huh=1", EINVAL,
		"invalid mount field 'huh'");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=/b,ro=perhaps", EINVAL, "not 'perhaps'");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=/b,bind-propagation=rshared", ENOTSUP,
		"cannot reach the host without root");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=/b,bind-recursive=disabled", ENOTSUP,
		"with all mounts below it");
	refuse(mount_spec_plan, "type=bind,src=/no/such,dst=/b", ENOENT, "hint: make it first");
	refuse(mount_spec_plan, "type=bind,src=/usr,dst=b", EINVAL, "not an absolute path");
	refuse(mount_spec_plan, "type=overlay,src=/etc/passwd,dst=/b", ENOTDIR,
		"is not a directory");
	refuse(mount_spec_plan, "type=overlay,src=/usr,dst=/b,ro", EINVAL,
		"hint: type=bind,readonly");
	refuse(mount_spec_plan, "type=bind,\"src=/usr,dst=/b", EINVAL, "is not closed");
	refuse(mount_spec_plan, "\"type=bind\"x,src=/usr,dst=/b", EINVAL, "expected a comma");
	refuse(mount_spec_plan, "type=bind,,src=/usr,dst=/b", EINVAL, "'' wants a value");
}

static void a_wrong_tmpfs_is_refused_with_the_reason(void **state)
{
	refuse(tmpfs_plan, "/x:size=0", EINVAL, "not '0'");
	refuse(tmpfs_plan, "/x:size=1x", EINVAL, "not '1x'");
	refuse(tmpfs_plan, "/x:size=1kk", EINVAL, "not '1kk'");
	refuse(tmpfs_plan, "/x:size=101%", EINVAL, "not '101%'");
	refuse(tmpfs_plan, "/x:size=99999999999999999g", EINVAL, "a size such as");
	refuse(tmpfs_plan, "/x:mode=999", EINVAL, "an octal mode");
	refuse(tmpfs_plan, "/x:mode=77777", EINVAL, "an octal mode");
	refuse(tmpfs_plan, "/x:uid=0", EINVAL, "invalid tmpfs option 'uid=0'");
	assert_string_equal(
		plan_one(tmpfs_plan, "/x:size=4000000000g")->options, "mode=1777,size=4000000000g");
	assert_string_equal(plan_one(tmpfs_plan, "/x:size=512b")->options, "mode=1777,size=512");
	refuse(tmpfs_plan, "x", EINVAL, "not an absolute path");
	refuse(tmpfs_plan, "/", EINVAL, "is the root");
}

static void a_volumes_flags_say_why_they_cannot_be_had(void **state)
{
	assert_int_equal(plan_one(volume_plan, "/usr:/d:O")->kind, PLAN_OVERLAY);
	assert_int_equal(plan_one(volume_plan, "/usr:/d:rslave,Z,exec,ro")->flags, PLAN_READONLY);
	refuse(volume_plan, "/usr:/d:rshared", ENOTSUP, "cannot reach the host without root");
	refuse(volume_plan, "/usr:/d:U", ENOTSUP, "the files are the caller's own inside as well");
	refuse(volume_plan, "/etc/passwd:/d:O", ENOTDIR, "an overlay needs");
}

static void a_device_is_a_node_that_the_caller_may_open(void **state)
{
	const struct plan_mount *m = plan_one(device_plan, "/dev/null:/dev/nix:rwm");

	assert_string_equal(m->source, "/dev/null");
	assert_string_equal(m->target, "/dev/nix");
	assert_string_equal(plan_one(device_plan, "/dev/zero")->target, "/dev/zero");
	assert_string_equal(plan_one(device_plan, "/dev/zero:rw")->target, "/dev/zero");
	refuse(device_plan, "/dev/null:/x:r", ENOTSUP, "the node's own mode");
	refuse(device_plan, "/dev/null:/x:rx", EINVAL, "invalid access 'rx'");
	refuse(device_plan, "/dev/no-such", ENOENT, "hint: `ls /dev`");
	refuse(device_plan, "/etc/passwd", ENODEV, "hint: -v mounts files");
	refuse(device_plan, "nvidia.com/gpu", EINVAL, "hint: mlrun gpu cdi --list");
	refuse(device_plan, "null", EINVAL, "expected a device's absolute path");
}

static void a_device_may_have_colons_in_its_name(void **state)
{
	char dir[] = "/tmp/test_options.XXXXXX";
	const char *const ends[] = { "", ":rw", ":/dev/card", ":/dev/card:rwm" };
	auto_free char *path = NULL;

	assert_non_null(mkdtemp(dir));
	path = xasprintf("%s/pci-0000:18:00.0-card", dir);
	assert_int_equal(symlink("/dev/null", path), 0);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		auto_free char *text = xasprintf("%s%s", path, ends[i]);
		const struct plan_mount *m = plan_one(device_plan, text);

		assert_string_equal(m->source, path);
		assert_string_equal(m->target, i < 2 ? path : "/dev/card");
	}
	unlink(path);
	rmdir(dir);
}

static void names_of_cdi_are_taken_out_of_devices_once(void **state)
{
	struct strv texts = STRV_INIT, names = STRV_INIT;
	struct plan p;

	plan_init(&p);
	strv_add(&texts, "/dev/null");
	strv_add(&texts, "nvidia.com/gpu=0");
	strv_add(&texts, "nvidia.com/gpu=0");
	strv_add(&texts, "a.b/c.d=GPU-1:0");
	device_cdi_names(&texts, &names);
	assert_int_equal(names.n, 2);
	assert_string_equal(names.v[1], "a.b/c.d=GPU-1:0");
	assert_int_equal(device_plan("nvidia.com/gpu=0", &p, NULL), 0);
	assert_int_equal(p.n_mounts, 0);
	strv_done(&texts);
	strv_done(&names);
	plan_done(&p);
}

static void a_limit_has_a_soft_and_a_hard_side(void **state)
{
	auto_call(plan_done) struct plan p;
	struct rlimit own;

	plan_init(&p);
	assert_int_equal(limit_plan("nofile=100:200", &p, NULL), 0);
	assert_int_equal(limit_plan("core=0", &p, NULL), 0);
	assert_int_equal(limit_plan("nofile=90", &p, NULL), 0);
	assert_int_equal(p.n_limits, 2);
	assert_int_equal(p.limits[0].resource, RLIMIT_NOFILE);
	assert_int_equal(p.limits[0].soft, 90);
	assert_int_equal(p.limits[0].hard, 90);
	assert_int_equal(p.limits[1].resource, RLIMIT_CORE);
	assert_int_equal(getrlimit(RLIMIT_AS, &own), 0);
	if (own.rlim_max == RLIM_INFINITY) {
		assert_int_equal(limit_plan("as=5:unlimited", &p, NULL), 0);
		assert_true(p.limits[2].hard == RLIM_INFINITY);
		assert_int_equal(limit_plan("as=-1", &p, NULL), 0);
		assert_true(p.limits[2].soft == RLIM_INFINITY);
	}
	refuse(limit_plan, "nofile", EINVAL, "NAME=SOFT[:HARD]");
	refuse(limit_plan, "files=1", EINVAL, "unknown limit 'files': use as, core");
	refuse(limit_plan, "nofile=lots", EINVAL, "invalid limit 'lots'");
	refuse(limit_plan, "nofile=1:", EINVAL, "invalid limit ''");
	refuse(limit_plan, "nofile=1k", EINVAL, "'k' after the number");
	refuse(limit_plan, "nofile=2:1", EINVAL, "soft limit is above");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &own), 0);
	if (own.rlim_max != RLIM_INFINITY) {
		refuse(limit_plan, "nofile=1:99999999999999", EPERM, "may not be raised");
		assert_int_equal(limit_plan("nofile=unlimited", &p, NULL), 0);
		assert_int_equal(p.limits[0].hard, own.rlim_max);
		assert_int_equal(p.notes.n, 1);
	}
}

static void processors_and_memory_are_read_as_docker_reads_them(void **state)
{
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	assert_int_equal(limit_cpus("1.5", &p, NULL), 0);
	assert_int_equal(p.cpus, 150);
	assert_int_equal(limit_memory("4g", &p, NULL), 0);
	assert_int_equal(p.memory, 4ull << 30);
	assert_int_equal(limit_memory("0.5GiB", &p, NULL), 0);
	assert_int_equal(p.memory, 1ull << 29);
	assert_int_equal(limit_memory("1000", &p, NULL), 0);
	assert_int_equal(p.memory, 1000);
	refuse(limit_cpus, "0", EINVAL, "from 0.01 on");
	refuse(limit_cpus, "nan", EINVAL, "from 0.01 on");
	refuse(limit_cpus, "2x", EINVAL, "from 0.01 on");
	refuse(limit_memory, "much", EINVAL, "a size such as");
	refuse(limit_memory, "4gx", EINVAL, "a size such as");
	refuse(limit_memory, "-4g", EINVAL, "a size such as");
	refuse(limit_memory, "inf", EINVAL, "a size such as");
}

static void a_user_is_found_by_name_or_by_number(void **state)
{
	static const char table[] = "root:x:0:0:root:/root:/bin/sh\n"
				    "\n"
				    "bad\n"
				    "worse:x:many:0::/:\n"
				    "jo:x:1000:100:Jo:/home/jo:/bin/bash\n"
				    "last:x:7:8";
	char *f[7];

	auto_free char *jo = user_find_line(table, "jo", 0, f);
	assert_non_null(jo);
	assert_string_equal(f[2], "1000");
	assert_string_equal(f[5], "/home/jo");
	auto_free char *seven = user_find_line(table, NULL, 7, f);
	assert_non_null(seven);
	assert_string_equal(f[0], "last");
	assert_null(f[5]);
	assert_null(user_find_line(table, "worse", 0, f));
	assert_null(user_find_line(table, "nobody", 0, f));
	assert_null(user_find_line("", NULL, 0, f));
}

/* --- architectures -------------------------------------------------------------------------- */

/* Neither x86 nor this machine's, whichever that is. */
static const char *foreign(void)
{
	const struct machine *arm = machine_of_arch("arm64");

	return machine_is_native(arm) ? "s390x" : "arm64";
}

static void put(const char *dir, const char *name, const char *text)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, NULL), 0);
}

static void emulator(const char *dir, const char *name, const char *enabled, const char *flags)
{
	const struct machine *m = machine_of_arch(foreign());
	auto_free char *text = xasprintf("%s\ninterpreter /usr/bin/qemu\nflags: %s\noffset 0\n"
					 "magic 7f454c460%d0%d010000000000000000000200%02x%02x\n"
					 "mask ffffffffffffff00fffffffffffffffffeffffff\n",
		enabled, flags, m->bits / 32, m->big + 1, m->big ? 0 : m->elf, m->big ? m->elf : 0);

	put(dir, name, text);
}

static void an_image_of_another_architecture_is_refused_unless_it_is_emulated(void **state)
{
	char root[] = "/tmp/mlr-test-opt.XXXXXX";
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *dir = NULL;

	assert_non_null(mkdtemp(root));
	dir = xasprintf("%s/proc/sys/fs/binfmt_misc", root);
	plan_init(&p);
	p.platform = xasprintf("linux/%s", foreign());
	p.image = xstrdup("demo:1");

	assert_int_equal(architecture_check(root, &p, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, p.platform));
	assert_non_null(strstr(err.text, "this machine is linux/"));
	assert_non_null(strstr(err.text, "hint: mlrun pull --platform linux/"));

	assert_int_equal(file_mkdir_p(AT_FDCWD, dir, 0755, NULL), 0);
	put(dir, "status", "enabled\n");
	emulator(dir, "off", "disabled", "OCF");
	emulator(dir, "outside", "enabled", "OC");
	put(dir, "java",
		"enabled\ninterpreter /usr/bin/java\nflags: F\noffset 0\nmagic cafebabe\n");
	assert_int_equal(architecture_check(root, &p, &err), -ENOEXEC);
	assert_int_equal(p.n_remarks, 0);

	emulator(dir, "qemu-it", "enabled", "OCF");
	assert_int_equal(architecture_check(root, &p, &err), 0);
	assert_int_equal(p.notes.n, 0);
	assert_int_equal(p.n_remarks, 1);
	assert_non_null(strstr(p.remarks[0].text, "runs by the emulator 'qemu-it'"));
	file_remove_tree(AT_FDCWD, root, NULL);
}

static void this_machines_images_and_unknown_words_pass(void **state)
{
	auto_call(plan_done) struct plan p;
	struct oci_platform host;
	char text[OCI_PLATFORM_SIZE];

	plan_init(&p);
	assert_int_equal(architecture_check("/no/such", &p, NULL), 0);
	oci_platform_host(&host);
	oci_platform_print(&host, text);
	p.platform = xstrdup(text);
	assert_int_equal(architecture_check("/no/such", &p, NULL), 0);
	free(p.platform);
	p.platform = xstrdup("unknown/unknown");
	assert_int_equal(architecture_check("/no/such", &p, NULL), 0);
	free(p.platform);
	p.platform = xstrdup("windows/amd64");
	assert_int_equal(architecture_check("/no/such", &p, NULL), -ENOEXEC);
}

static void a_programs_machine_is_in_its_first_bytes(void **state)
{
	unsigned char head[MACHINE_ELF_HEAD] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };

	head[18] = 183;
	assert_string_equal(machine_of_elf(head, sizeof(head))->arch, "arm64");
	head[18] = 62;
	assert_string_equal(machine_of_elf(head, sizeof(head))->arch, "amd64");
	assert_null(machine_of_elf(head, sizeof(head) - 1));
	head[4] = 1;
	assert_null(machine_of_elf(head, sizeof(head))); /* x32 */
	head[5] = 2;
	head[18] = 0;
	head[19] = 8;
	assert_string_equal(machine_of_elf(head, sizeof(head))->arch, "mips");
	head[0] = '#';
	assert_null(machine_of_elf(head, sizeof(head)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_is_read_in_dockers_words),
		cmocka_unit_test(a_quoted_field_may_hold_commas_and_quotes),
		cmocka_unit_test(a_tmpfs_mounts_options_reach_the_kernel),
		cmocka_unit_test(a_wrong_mount_is_refused_with_the_reason),
		cmocka_unit_test(a_wrong_tmpfs_is_refused_with_the_reason),
		cmocka_unit_test(a_volumes_flags_say_why_they_cannot_be_had),
		cmocka_unit_test(a_device_is_a_node_that_the_caller_may_open),
		cmocka_unit_test(a_device_may_have_colons_in_its_name),
		cmocka_unit_test(names_of_cdi_are_taken_out_of_devices_once),
		cmocka_unit_test(a_limit_has_a_soft_and_a_hard_side),
		cmocka_unit_test(processors_and_memory_are_read_as_docker_reads_them),
		cmocka_unit_test(a_user_is_found_by_name_or_by_number),
		cmocka_unit_test(an_image_of_another_architecture_is_refused_unless_it_is_emulated),
		cmocka_unit_test(this_machines_images_and_unknown_words_pass),
		cmocka_unit_test(a_programs_machine_is_in_its_first_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
