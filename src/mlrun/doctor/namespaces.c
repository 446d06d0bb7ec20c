/* Checks user namespaces, and what can be mounted in one: tmpfs and overlay. */
#include "doctor/check.h"

#include "base/program.h"
#include "runtime/userns.h"

#include <sys/mount.h>
#include <sys/xattr.h>

#define SYSCTL "/proc/sys/"

/* Settings that forbid user namespaces: the value that does, and the one that allows them. */
static const struct {
	const char *name; /* as sysctl(8) spells it */
	long forbids, allows;
} sysctls[] = {
	{ "user.max_user_namespaces", 0, 15000 },
	{ "user.max_mnt_namespaces", 0, 15000 },
	{ "kernel.unprivileged_userns_clone", 0, 1 },
};

static long sysctl_value(const struct doctor_machine *m, const char *name)
{
	auto_free char *path = xasprintf(SYSCTL "%s", name);

	for (char *s = path + strlen(SYSCTL); *s; s++)
		if (*s == '.')
			*s = '/';
	return doctor_number(m, path);
}

/* The directory of a program, without links and ".."; to free(). */
static char *directory_of(const char *program)
{
	auto_free char *real = realpath(program, NULL);

	return path_dir(real ? real : program);
}

/* Ubuntu 23.10 and later: a program without a profile gets user namespaces without rights. AppArmor
 * matches paths without links and "..", and takes none that begins with a brace. */
static void blame_apparmor(struct doctor_report *r)
{
	auto_free char *helper = program_path("mlrun-pull"), *helpers = directory_of(helper);
	auto_free char *own = directory_of("/proc/self/exe");

	doctor_because(r,
		"kernel.apparmor_restrict_unprivileged_userns is 1, and no AppArmor profile allows them to mlrun");
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"cat >/etc/apparmor.d/mlrun <<'END'\n"
		"abi <abi/4.0>,\n"
		"include <tunables/global>\n"
		"profile mlrun /{%s/mlrun,%s/mlrun-*} flags=(unconfined) {\n"
		"  userns,\n"
		"}\n"
		"END\n"
		"apparmor_parser -r /etc/apparmor.d/mlrun",
		own + 1, helpers + 1);
}

/* Add a finding that names the setting that is to blame. Returns 1, or 0 if none is. */
static int blame_setting(const struct doctor_machine *m, const char *what, struct doctor_report *r)
{
	for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
		if (sysctl_value(m, sysctls[i].name) != sysctls[i].forbids)
			continue;
		doctor_add(r, "userns", DOCTOR_FAILURE, "%s", what);
		doctor_because(r, "%s is %ld", sysctls[i].name, sysctls[i].forbids);
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"echo '%s = %ld' >/etc/sysctl.d/60-mlrun.conf && sysctl --system",
			sysctls[i].name, sysctls[i].allows);
		return 1;
	}
	if (sysctl_value(m, "kernel.apparmor_restrict_unprivileged_userns") == 1) {
		doctor_add(r, "userns", DOCTOR_FAILURE, "%s", what);
		blame_apparmor(r);
		return 1;
	}
	return 0;
}

static void blame(
	const struct doctor_machine *m, const struct mlr_error *err, struct doctor_report *r)
{
	auto_free char *what = xasprintf("no container can be made: %s", err->text);

	if (blame_setting(m, what, r))
		return;
	doctor_add(r, "userns", DOCTOR_FAILURE, "%s", what);
	if (doctor_is_filtered(m)) {
		doctor_because(r,
			"a seccomp filter is on this process: it runs in a container that forbids them");
		doctor_mend(r, DOCTOR_YOU,
			"start the container around it with --security-opt seccomp=unconfined");
	} else if (err->code == ENOSPC) {
		doctor_because(r,
			"the limit on namespaces of this user, or of a namespace around this one, is reached");
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"sysctl user.max_user_namespaces user.max_mnt_namespaces; lsns -t user");
	} else if (err->code == ENOSYS || err->code == EINVAL) {
		doctor_because(r, "the kernel was built without them (CONFIG_USER_NS)");
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "boot a kernel with CONFIG_USER_NS=y");
	} else {
		doctor_because(r,
			"a chroot, a container or a security module around this process forbids them");
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "dmesg | grep -iE 'apparmor|selinux|userns'");
	}
}

/* Mount a new tmpfs and enter it; the place does not matter. Returns 0 or errno. */
static int enter_tmpfs(void)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/run", "/mnt" };
	const char *place = places[0];
	struct stat sb;

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (stat(places[i], &sb) == 0 && S_ISDIR(sb.st_mode)) {
			place = places[i];
			break;
		}
	if (mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0)
		return errno;
	return chdir(place) < 0 ? errno : 0;
}

/* Returns 0 once in its own namespaces. */
static int enter(const struct doctor_machine *m, struct doctor_report *r)
{
	const struct plan_identity id = {
		.uid = geteuid(), .host_uid = geteuid(), .gid = getegid(), .host_gid = getegid()
	};
	struct mlr_error err = MLR_ERROR_INIT;
	int code;

	if (userns_enter(&id, &err) == 0) {
		code = enter_tmpfs();
		if (code == 0) {
			doctor_add(r, "userns", DOCTOR_PASS,
				"user and mount namespaces can be made and mounted in");
			return 0;
		}
		mlr_fail(&err, code, "mount a tmpfs in a user namespace: %s", strerror(code));
	}
	err.text[strcspn(err.text, "\n")] = '\0'; /* without the hint */
	blame(m, &err, r);
	return -1;
}

/* Runs in the new tmpfs. Returns 0 or errno. */
static int try_overlay(void)
{
	static const char *const dirs[] = { "lower", "lower2", "upper", "work", "root" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return errno;
	return mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV,
		       "lowerdir=lower:lower2,upperdir=upper,workdir=work,userxattr") < 0
		? errno
		: 0;
}

/* For a single tree, runtime/overlay.h needs no overlay. */
static void add_no_overlay(struct doctor_report *r, const char *what)
{
	doctor_add(r, "overlay", DOCTOR_WARNING, "%s", what);
	doctor_because(r,
		"images run as one tree only (mlrun pull --format=dir or squashfs), which cannot be changed, and nothing is kept");
}

static void look_at_overlay(const struct doctor_machine *m, struct doctor_report *r)
{
	int code = try_overlay();
	auto_free char *what =
		xasprintf("an ordinary user cannot mount an overlay: %s", strerror(code));

	if (code == 0) {
		doctor_add(r, "overlay", DOCTOR_PASS, "an ordinary user can mount overlays");
		return;
	}
	add_no_overlay(r, what);
	if (code == ENODEV)
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"modprobe overlay && echo overlay >/etc/modules-load.d/mlrun.conf");
	else if (doctor_is_filtered(m))
		doctor_mend(r, DOCTOR_YOU,
			"start the container around it with --security-opt seccomp=unconfined");
	else
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "boot Linux 5.11 or newer");
}

/* An attribute marks the upper layer's directories that hide the image's. */
static void look_at_attributes(struct doctor_report *r)
{
	if (mkdir("attributes", 0755) < 0)
		return;
	if (setxattr("attributes", "user.overlay.opaque", "y", 1, 0) == 0) {
		doctor_add(r, "tmpfs", DOCTOR_PASS,
			"tmpfs keeps user.* attributes: everything in a container's root can be replaced");
		return;
	}
	doctor_add(r, "tmpfs", DOCTOR_WARNING, "tmpfs keeps no user.* attributes: %s",
		strerror(errno));
	doctor_because(r,
		"a directory of an image cannot be removed and made anew inside; Linux 6.6 and later can");
	doctor_mend(r, DOCTOR_ADMINISTRATOR, "boot Linux 6.6 or newer, with CONFIG_TMPFS_XATTR=y");
}

/* Find what another machine's settings forbid. */
static void read_settings(const struct doctor_machine *m, struct doctor_report *r)
{
	if (!blame_setting(m, "no container can be made", r))
		doctor_add(r, "userns", DOCTOR_PASS, "no setting forbids user namespaces");
	if (doctor_has_filesystem(m, "overlay")) {
		doctor_add(r, "overlay", DOCTOR_PASS, "the kernel has overlayfs");
		return;
	}
	add_no_overlay(r, "the kernel has no overlayfs: it is not in /proc/filesystems");
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"modprobe overlay && echo overlay >/etc/modules-load.d/mlrun.conf");
}

/* Report a fault that the parts' checks do not foresee, such as a root that cannot be replaced.
 */
static void tell_start(int result, const struct mlr_error *err, struct doctor_report *r)
{
	const char *hint = mlr_hint_of(err);

	if (result == 0) {
		doctor_add(r, "start", DOCTOR_PASS, "a container of an empty directory starts");
		return;
	}
	doctor_add(r, "start", DOCTOR_FAILURE, "a container of an empty directory does not start");
	doctor_because(r, "%.*s", MLR_SENTENCE(err));
	doctor_mend(r, DOCTOR_YOU, "%s",
		hint ? hint : "mkdir /tmp/empty && mlrun exec --verbose rootfs:/tmp/empty true");
}

void check_namespaces(const struct doctor_machine *m, struct doctor_report *r)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int start;

	if (!doctor_is_here(m)) {
		read_settings(m, r);
		return;
	}
	start = doctor_try_start(NULL, NULL, &err);
	if (enter(m, r) < 0) {
		doctor_add(r, "overlay", DOCTOR_WARNING, "overlays could not be tried");
		doctor_because(r, "they are mounted in a user namespace");
		return;
	}
	tell_start(start, &err, r);
	look_at_overlay(m, r);
	look_at_attributes(r);
}
