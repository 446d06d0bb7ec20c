/* Checks the directories for passing data: TMPDIR and /dev/shm. */
#include "doctor/check.h"

#include "base/filesystem.h"

#define MB 1000000ull
#define SHM_SIZE_MIN                                                                               \
	(512 * MB) /* more than Docker's 64 MB, which are too few: a data loader's worker takes 50 \
		    */
#define SHM_LEFT_MIN (64 * MB)
#define TMP_LEFT_MIN (100 * MB)

/* Pass a file system without a size of its own (ramfs, tmpfs with size=0). */
static int is_unlimited(
	struct doctor_report *r, const char *name, const char *dir, const struct statvfs *fs)
{
	if (fs->f_bavail < FILESYSTEM_NO_SIZE / fs->f_frsize)
		return 0;
	doctor_add(r, name, DOCTOR_PASS, "'%s' has no limit but the machine's memory", dir);
	return 1;
}

static void look_at_shm(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *path = doctor_path(m, "/dev/shm");
	auto_close int fd = open(path, O_PATH | O_CLOEXEC);
	struct statvfs fs;
	unsigned long long size, left;

	if (access(path, W_OK) < 0 || filesystem_room(fd, &fs) < 0) {
		doctor_add(r, "shm", DOCTOR_WARNING, "/dev/shm cannot be written to: %s",
			strerror(errno));
		doctor_because(r, "MPI and data loaders share memory there");
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"mount -t tmpfs -o mode=1777,nosuid,nodev,size=50%% tmpfs /dev/shm");
		return;
	}
	if (is_unlimited(r, "shm", "/dev/shm", &fs))
		return;
	size = (unsigned long long)fs.f_blocks * fs.f_frsize;
	left = (unsigned long long)fs.f_bavail * fs.f_frsize;
	if (!doctor_is_here(m) || (size >= SHM_SIZE_MIN && left >= SHM_LEFT_MIN)) {
		doctor_add(r, "shm", DOCTOR_PASS, "/dev/shm has %llu MB, %llu MB left", size / MB,
			left / MB);
		return;
	}
	doctor_add(r, "shm", DOCTOR_WARNING, "/dev/shm has %llu MB, %llu MB left", size / MB,
		left / MB);
	doctor_because(r,
		"MPI and data loaders share memory there and end with a bus error when it is full");
	if (size < SHM_SIZE_MIN)
		doctor_mend(r, DOCTOR_ADMINISTRATOR, "mount -o remount,size=50%% /dev/shm");
	else
		doctor_mend(r, DOCTOR_YOU, "ls -l /dev/shm; rm what ended programs left there");
}

static void look_at_tmp(struct doctor_report *r)
{
	const char *env = getenv("TMPDIR"), *dir = env && *env ? env : "/tmp";
	auto_close int fd = open(dir, O_PATH | O_CLOEXEC);
	unsigned long long left;
	struct statvfs fs;
	struct stat sb;

	if (stat(dir, &sb) < 0 || (!S_ISDIR(sb.st_mode) && (errno = ENOTDIR)) ||
		access(dir, W_OK | X_OK) < 0 || filesystem_room(fd, &fs) < 0) {
		doctor_add(r, "tmpdir", DOCTOR_WARNING, "'%s' cannot be written to: %s", dir,
			strerror(errno));
		doctor_because(r, env && *env ? "TMPDIR names it" : "TMPDIR is not set");
		if (env && *env)
			doctor_mend(r, DOCTOR_YOU, "mkdir -p '%s' || unset TMPDIR", dir);
		else
			doctor_mend(r, DOCTOR_ADMINISTRATOR, "chmod 1777 /tmp");
		return;
	}
	if (is_unlimited(r, "tmpdir", dir, &fs))
		return;
	left = (unsigned long long)fs.f_bavail * fs.f_frsize;
	if (left >= TMP_LEFT_MIN) {
		doctor_add(r, "tmpdir", DOCTOR_PASS, "'%s' has %llu MB left", dir, left / MB);
		return;
	}
	doctor_add(r, "tmpdir", DOCTOR_WARNING, "'%s' has %llu MB left", dir, left / MB);
	doctor_because(r, "programs write their temporary files there");
	doctor_mend(r, DOCTOR_YOU, "export TMPDIR=/some/directory/with/room");
}

void check_memory(const struct doctor_machine *m, struct doctor_report *r)
{
	look_at_shm(m, r);
	if (doctor_is_here(m))
		look_at_tmp(r);
}
