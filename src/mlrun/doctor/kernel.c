/* Checks the kernel's version and the system calls that mlrun uses. */
#include "doctor/check.h"

#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>

/* Returns 0, or the errno with which this kernel or a filter refuses a call. */
static int refused(long r)
{
	return r < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL) ? errno : 0;
}

static int try_openat2(void)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	auto_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

	return refused(fd);
}

static int try_open_tree(void)
{
	auto_close int fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLOEXEC);

	return refused(fd);
}

/* Passes a struct that is too small: the kernel refuses it before it checks the caller's rights. */
static int try_mount_setattr(void)
{
	struct mount_attr attr = { 0 };
	int r = mount_setattr(-1, "", AT_EMPTY_PATH, &attr, 0);

	return r < 0 && errno == EINVAL ? 0 : refused(r);
}

static int try_close_range(void)
{
	return refused(close_range(~0u, ~0u, CLOSE_RANGE_CLOEXEC));
}

/* mlrun can do without any of these, in an older way. */
static const struct {
	const char *name;
	int major, minor; /* the first kernel with it */
	int (*try)(void);
} features[] = {
	{ "openat2", 5, 6, try_openat2 },
	{ "open_tree", 5, 2, try_open_tree },
	{ "close_range", 5, 11, try_close_range },
	{ "mount_setattr", 5, 12, try_mount_setattr },
};

/* Sort the calls into those that work and those that do not. Returns whether a filter refuses one
 * that the kernel has. */
static int sort_features(
	const struct doctor_machine *m, int major, int minor, struct strv *has, struct strv *lacks)
{
	int filtered = 0;

	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		int is_old = major < features[i].major ||
			(major == features[i].major && minor < features[i].minor);

		if (doctor_is_here(m) ? features[i].try() == 0 : !is_old) {
			strv_add(has, features[i].name);
			continue;
		}
		strv_add(lacks, features[i].name);
		filtered |= !is_old;
	}
	return filtered;
}

void check_kernel(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *release = doctor_text(m, "/proc/sys/kernel/osrelease"), *names = NULL;
	auto_strv struct strv has = STRV_INIT, lacks = STRV_INIT;
	int major, minor, filtered;

	if (!release || sscanf(release, "%d.%d", &major, &minor) != 2) {
		doctor_add(r, "kernel", DOCTOR_FAILURE, "the kernel's version cannot be read");
		doctor_because(r, "/proc is not mounted");
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "mount -t proc proc /proc");
		return;
	}
	filtered = sort_features(m, major, minor, &has, &lacks);
	names = lacks.n ? strv_join(&lacks, lacks.n, ", ") : strv_join(&has, has.n, ", ");
	if (lacks.n == 0) {
		doctor_add(r, "kernel", DOCTOR_PASS, "Linux %s: %s", release, names);
		return;
	}
	doctor_add(r, "kernel", DOCTOR_WARNING, "Linux %s without %s", release, names);
	doctor_because(r, "containers start the older way, more slowly%s",
		filtered
			? "; this kernel has the call, so a filter (seccomp) around this process refuses it"
			: "");
	if (filtered)
		doctor_mend(r, DOCTOR_YOU,
			"start the container around it with --security-opt seccomp=unconfined");
	else
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"boot Linux 5.12 or newer (RHEL 9, Debian 12, Ubuntu 22.04 have one)");
}
