/* The kernel's version and the system calls that mlrun stands on. */
#include "doctor/check.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0, or the errno of a call that this kernel, or a filter before it, does not answer. */
static int refused(long r)
{
	return r < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL) ? errno : 0;
}

static int try_openat2(void)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	long fd = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

	if (fd >= 0)
		close((int)fd);
	return refused(fd);
}

static int try_open_tree(void)
{
	int fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return refused(fd);
}

/* With a struct that is too small, which is refused before the caller's rights are asked for. */
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

static const struct {
	const char *name;
	int major, minor; /* the first kernel that has it */
	int (*try)(void);
	int must; /* else exec does without it, or not all of its options work */
	const char *means;
} features[] = {
	{ "openat2", 5, 6, try_openat2, 1, "paths inside an image cannot be resolved safely" },
	{ "open_tree", 5, 2, try_open_tree, 1, "nothing can be mounted by descriptor" },
	{ "close_range", 5, 11, try_close_range, 1, "descriptors would leak into containers" },
	{ "mount_setattr", 5, 12, try_mount_setattr, 0,
		"ro, nosuid, nodev and noexec volumes and --read-only are refused" },
};

static int is_older(int major, int minor, int than_major, int than_minor)
{
	return major < than_major || (major == than_major && minor < than_minor);
}

static char *append(char *list, const char *word)
{
	char *longer = xasprintf("%s%s%s", list, *list ? ", " : "", word);

	free(list);
	return longer;
}

void check_kernel(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *release = doctor_text(m, "/proc/sys/kernel/osrelease");
	char *has = xstrdup(""), *lacks = xstrdup("");
	const char *means = NULL;
	int major = 0, minor = 0, must = 0, filtered = 0;

	if (!release || sscanf(release, "%d.%d", &major, &minor) != 2) {
		doctor_because(doctor_add(r, "kernel", DOCTOR_FAILURE,
				       "the kernel's version cannot be read"),
			"/proc is not mounted");
		doctor_mend(&r->v[r->n - 1], DOCTOR_ADMINISTRATOR, "mount -t proc proc /proc");
		goto done;
	}
	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		int code = doctor_is_here(m)
			? features[i].try()
			: is_older(major, minor, features[i].major, features[i].minor);

		if (!code) {
			has = append(has, features[i].name);
			continue;
		}
		lacks = append(lacks, features[i].name);
		/* A kernel that has the call and does not give it is under somebody's filter. */
		filtered |= !is_older(major, minor, features[i].major, features[i].minor);
		if (!means || (features[i].must && !must))
			means = features[i].means;
		must |= features[i].must;
	}
	if (!*lacks) {
		doctor_add(r, "kernel", DOCTOR_PASS, "Linux %s: %s", release, has);
		goto done;
	}
	doctor_because(doctor_add(r, "kernel", must ? DOCTOR_FAILURE : DOCTOR_WARNING,
			       "Linux %s lacks %s", release, lacks),
		"%s%s", means,
		filtered
			? "; this kernel has them, so a filter (seccomp) around this process refuses them"
			: "");
	if (filtered)
		doctor_mend(&r->v[r->n - 1], DOCTOR_YOU,
			"start the container around it with --security-opt seccomp=unconfined");
	else
		doctor_mend(&r->v[r->n - 1], DOCTOR_ADMINISTRATOR,
			"boot Linux 5.12 or newer (RHEL 9, Debian 12, Ubuntu 22.04 have one)");
done:
	free(has);
	free(lacks);
}
