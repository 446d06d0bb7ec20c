/* Checks FUSE, which serves squashfs images. */
#include "doctor/check.h"

#include "base/program.h"
#include "config.h"
#include "store/store.h"

/* The number of the store's images that need FUSE; 0 if unknown. */
static int count_squashfs(const struct doctor_machine *m)
{
	auto_store struct store *st = NULL;
	auto_dir DIR *d = NULL;
	int n = 0;

	if (store_open(m->store, 0, &st, NULL) == 0)
		d = file_open_dir(store_fd(st), "squash", 0);
	for (struct dirent *e; (e = file_next(d));)
		n += e->d_name[0] != '.';
	return n;
}

static void add(const struct doctor_machine *m, struct doctor_report *r, const char *what)
{
	int images = doctor_is_here(m) ? count_squashfs(m) : 0;

	doctor_add(r, "fuse", images > 0 ? DOCTOR_FAILURE : DOCTOR_WARNING,
		"squashfs images cannot be run: %s", what);
	if (images > 0)
		doctor_because(r, "the store has %d of them", images);
	else
		doctor_because(r, "images that lie as trees (--format=layers, dir) can");
}

static void tell_closed(
	const struct doctor_machine *m, struct doctor_report *r, int code, const struct stat *sb)
{
	auto_free char *what = xasprintf(
		"/dev/fuse is closed to this user (%s, mode %04o, owner %ld:%ld)", strerror(code),
		(unsigned)sb->st_mode & 07777, (long)sb->st_uid, (long)sb->st_gid);

	add(m, r, what);
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"echo 'KERNEL==\"fuse\", MODE=\"0666\"' >/etc/udev/rules.d/99-fuse.rules && chmod 0666 /dev/fuse");
}

void check_fuse(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *device = doctor_path(m, "/dev/fuse"),
		       *server = program_path("mlrun-squashfuse");
	auto_close int fd = -1;
	struct stat sb;

	if (doctor_is_here(m) && access(server, X_OK) < 0) {
		add(m, r,
			"this mlrun was built without libsquashfuse, or its mlrun-squashfuse is not installed");
		doctor_mend(r, DOCTOR_YOU,
			"./quickstart deps && ./configure --with-squashfuse && make install");
		return;
	}
	if (stat(device, &sb) < 0) {
		add(m, r,
			doctor_has_filesystem(m, "fuse")
				? "there is no /dev/fuse"
				: "the kernel's module fuse is not loaded");
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"modprobe fuse && echo fuse >/etc/modules-load.d/fuse.conf");
		return;
	}
	if (!doctor_is_here(m)) {
		if ((sb.st_mode & 0006) != 0006)
			tell_closed(m, r, EACCES, &sb);
		else
			doctor_add(r, "fuse", DOCTOR_PASS, "/dev/fuse is open to all");
		return;
	}
	fd = open(device, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		tell_closed(m, r, errno, &sb);
		return;
	}
	doctor_add(r, "fuse", DOCTOR_PASS, "squashfs images can be served through /dev/fuse");
}
